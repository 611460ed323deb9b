//! `iodyno-heat`: traces into one grid as JSON, or the lines of a region of it.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use iodyno_heat::event::{Quantity, Wanted, QUANTITIES};
use iodyno_heat::failure::{Failure, Mistake};
use iodyno_heat::formats::Columns;
use iodyno_heat::frame::{self, Asked, Mark};
use iodyno_heat::parts::{self, Framed};
use iodyno_heat::pass::Progress;
use iodyno_heat::reduce::{self, Reduced, Request};
use iodyno_heat::region;
use iodyno_heat::source::Source;
use iodyno_heat::unit::{Unit, UNITS};
use serde::de::DeserializeOwned;
use serde::Serialize;

/// A trace that broke off; the grid of what could be read was printed.
const BROKEN: u8 = 65;
const WRONG: u8 = 2;
const STOPPED: u8 = 130;

#[derive(Parser)]
#[command(
    name = "iodyno-heat",
    version,
    about = "Counts the events of traces into a grid of time and a quantity, and prints it as JSON",
    after_help = "Example: awk '{ print $2, $3 }' out.iosnoop | iodyno-heat --time-unit us --value-unit us
Exit codes: 0 done; 2 wrong trace or option; 65 a trace broke off, and what could be read was printed"
)]
struct Options {
    /// Traces; - or none: standard input
    files: Vec<PathBuf>,
    /// The form of the traces, where it is not to be recognised
    #[arg(long, value_name = "FORM")]
    format: Option<String>,
    /// Unit of times: s, ms, us, ns
    #[arg(long, value_parser = unit_of_time)]
    time_unit: Option<Unit>,
    /// Unit of values: s, ms, us, ns, bytes, KiB, count, ratio, ...
    #[arg(long, value_parser = unit)]
    value_unit: Option<Unit>,
    /// Column of the time: its number from 1, or its name
    #[arg(long, value_name = "COLUMN")]
    time_column: Option<String>,
    /// Column of the value
    #[arg(long, value_name = "COLUMN")]
    value_column: Option<String>,
    /// What the rows are: latency, size, offset, cpu, queue-depth, utilisation, value
    #[arg(long, value_parser = quantity)]
    quantity: Option<Quantity>,
    /// Which time of an operation is its column
    #[arg(long, value_enum, default_value = "end")]
    at: At,
    /// Only this operation: read, write, or a word of the trace
    #[arg(long)]
    operation: Option<String>,
    /// Only this process, by name or number
    #[arg(long)]
    process: Option<String>,
    /// Only this device
    #[arg(long)]
    device: Option<String>,
    /// Width of a column: 1, 0.1, 100ms [default: round, for at most 200 columns]
    #[arg(long, value_parser = duration, value_name = "SECONDS")]
    column: Option<i64>,
    /// Columns at most
    #[arg(long, default_value_t = frame::MAX_COLUMNS, value_parser = clap::value_parser!(i64).range(1..=frame::MAX_COLUMNS))]
    max_columns: i64,
    /// Lower edge of the rows
    #[arg(long = "min", value_name = "VALUE")]
    low: Option<String>,
    /// Upper edge of the rows [default: round, and not below --max-quantile]
    #[arg(long = "max", value_name = "VALUE")]
    high: Option<String>,
    /// Share of the values that the rows reach
    #[arg(long = "max-quantile", default_value_t = frame::HIGH_QUANTILE, value_parser = share)]
    high_quantile: f64,
    /// How many rows [default: 50]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=frame::MAX_ROWS as u64))]
    rows: Option<u64>,
    /// Height of a row, instead of how many
    #[arg(long, value_name = "VALUE", conflicts_with = "rows")]
    row_step: Option<String>,
    /// How rows are cut [default: linear, or log where half of the values would be in the lowest row]
    #[arg(long, value_enum)]
    scale: Option<Scale>,
    /// Only events from here on, in seconds after the first event; @SECONDS: on the trace's clock
    #[arg(long, value_parser = mark, allow_hyphen_values = true)]
    from: Option<Mark>,
    /// Only events before this
    #[arg(long, value_parser = mark, allow_hyphen_values = true)]
    to: Option<Mark>,
    /// Columns are whole seconds, rows are offsets within them
    #[arg(long)]
    sub_second: bool,
    /// Print the lines whose value is at least LOW and at most HIGH, instead of a grid
    #[arg(long, value_name = "LOW[:HIGH]")]
    outliers: Option<String>,
    /// Lines at most of --outliers
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true, requires = "outliers")]
    limit: u64,
    /// End at the first line that cannot be read
    #[arg(long)]
    strict: bool,
    /// A trace that breaks off is no error
    #[arg(long)]
    truncated: bool,
    /// Threads that may be used
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    threads: u64,
    /// Say on stderr how many bytes were read, as JSON lines
    #[arg(long)]
    progress: bool,
    /// Say errors as JSON
    #[arg(long, hide = true)]
    errors_as_json: bool,
    /// One step of a reduction in parts; what is printed is for the next step
    #[arg(long, value_enum, hide = true)]
    step: Option<Step>,
    /// The trace of that step, from 0
    #[arg(long, hide = true, default_value_t = 0)]
    trace: usize,
}

/// Steps of `parts`: what each but the first needs comes on stdin, one a line.
#[derive(Clone, Copy, ValueEnum)]
enum Step {
    Survey,
    Frame,
    Count,
    Join,
}

#[derive(Clone, Copy, ValueEnum)]
enum At {
    Begin,
    End,
}

#[derive(Clone, Copy, ValueEnum)]
enum Scale {
    Linear,
    Log,
}

fn main() -> ExitCode {
    let options = &Options::parse();
    match reduced(options) {
        Ok(code) => code,
        Err(Failure::Machine(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Machine(error)) => {
            say(options, &Mistake::new(error.to_string(), ""));
            ExitCode::from(WRONG)
        }
        Err(Failure::Stopped) => ExitCode::from(STOPPED),
        Err(Failure::Mistake(mistake)) => {
            say(options, &mistake);
            ExitCode::from(WRONG)
        }
    }
}

fn reduced(options: &Options) -> Result<ExitCode, Failure> {
    let (sources, request) = (sources(&options.files)?, request(options));
    if let Some(wanted) = &options.outliers {
        return listed(options, sources, &request, wanted);
    }
    if let Some(step) = options.step {
        return one_step(options, step, sources, &request);
    }
    let total =
        sources.iter().map(|source| source.random_access().map(|(_, bytes)| bytes)).sum::<Option<u64>>();
    let found = watched(options, total, |progress| reduce::reduce(sources, &request, progress))?;
    printed(options, &found)
}

fn one_step(
    options: &Options,
    step: Step,
    sources: Vec<Source>,
    request: &Request,
) -> Result<ExitCode, Failure> {
    let (progress, at) = (Progress::default(), options.trace);
    let mut lines = io::stdin().lock().lines();
    match step {
        Step::Survey => write(&parts::survey(sources, request, at, &progress)?)?,
        Step::Frame => write(&parts::frame(sources, request, lines.map(read))?)?,
        Step::Count => {
            let framed: Framed = lines.next().map_or(Err(io::ErrorKind::UnexpectedEof.into()), read)?;
            write(&parts::count(sources, request, &framed, at, &progress)?)?;
        }
        Step::Join => {
            let framed: Framed = lines.next().map_or(Err(io::ErrorKind::UnexpectedEof.into()), read)?;
            return printed(options, &parts::join(sources, request, framed, lines.map(read))?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read<T: DeserializeOwned>(line: io::Result<String>) -> io::Result<T> {
    Ok(serde_json::from_str(&line?)?)
}

/// Writes a line of JSON.
fn write(value: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}

fn printed(options: &Options, found: &Reduced) -> Result<ExitCode, Failure> {
    write(found)?;
    if found.broken.is_empty() || options.truncated {
        return Ok(ExitCode::SUCCESS);
    }
    let readable = found.events - found.unreadable;
    say(
        options,
        &Mistake::new(
            format!("{}; {readable} events before that were read", found.broken.join("; ")),
            "--truncated takes what can be read, or get the whole file",
        ),
    );
    Ok(ExitCode::from(BROKEN))
}

fn listed(
    options: &Options,
    sources: Vec<Source>,
    request: &Request,
    wanted: &str,
) -> Result<ExitCode, Failure> {
    region::check(wanted)?;
    let mut out = BufWriter::with_capacity(256 << 10, io::stdout());
    let found = region::list(sources, request, wanted, options.limit, &mut out, &Progress::default())?;
    let mut left = Vec::new();
    if found.more > 0 {
        left.push(format!("{} further lines lie in the region", found.more));
    }
    if found.unreadable > 0 {
        left.push(format!("{} lines could not be read", found.unreadable));
    }
    if !left.is_empty() {
        let _ = writeln!(io::stderr(), "{}", left.join("; "));
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens what is named.
fn sources(files: &[PathBuf]) -> Result<Vec<Source>, Mistake> {
    let stdin = [PathBuf::from("-")];
    let files = if files.is_empty() { &stdin[..] } else { files };
    if files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(Mistake::new("standard input can be read once", "name - once").at("-"));
    }
    let opened = |path: &PathBuf| -> io::Result<Source> {
        if path.as_os_str() == "-" {
            return Source::open("standard input", File::from(io::stdin().as_fd().try_clone_to_owned()?));
        }
        Source::open(&path.display().to_string(), File::open(path)?)
    };
    let refused = |path: &PathBuf, error: io::Error| {
        Mistake::new(format!("it cannot be read: {error}"), "the name of a trace, or - for standard input")
            .at(path.display().to_string())
    };
    files.iter().map(|path| opened(path).map_err(|error| refused(path, error))).collect()
}

fn request(options: &Options) -> Request {
    Request {
        form: options.format.clone(),
        time_unit: options.time_unit,
        value_unit: options.value_unit,
        columns: Columns { time: options.time_column.clone(), value: options.value_column.clone() },
        quantity: options.quantity,
        wanted: Wanted {
            at_begin: matches!(options.at, At::Begin),
            operation: options.operation.clone(),
            process: options.process.clone(),
            device: options.device.clone(),
            ..Wanted::default()
        },
        asked: Asked {
            column_ns: options.column,
            max_columns: options.max_columns,
            high_quantile: options.high_quantile,
            rows: options.rows.map(|rows| rows as usize),
            scale: options.scale.map(|scale| match scale {
                Scale::Linear => frame::Scale::Linear,
                Scale::Log => frame::Scale::Log,
            }),
            from: options.from,
            to: options.to,
            sub_second: options.sub_second,
            ..Asked::default()
        },
        low: options.low.clone(),
        high: options.high.clone(),
        row_step: options.row_step.clone(),
        threads: options.threads as usize,
        strict: options.strict,
        spool: std::env::temp_dir(),
    }
}

/// Does `work`, and says meanwhile how far it is where that was asked for.
fn watched<T>(options: &Options, total: Option<u64>, work: impl FnOnce(&Progress) -> T) -> T {
    let progress = Progress::default();
    if !options.progress {
        return work(&progress);
    }
    std::thread::scope(|scope| {
        let (ended, waits) = mpsc::channel::<()>();
        let shown = &progress;
        scope.spawn(move || {
            while waits.recv_timeout(Duration::from_millis(250)) == Err(mpsc::RecvTimeoutError::Timeout) {
                let done = shown.done_bytes.load(Relaxed);
                // Two passes over each byte.
                let all = total.map(|bytes| bytes * 2);
                let _ =
                    writeln!(io::stderr(), "{}", serde_json::json!({"done_bytes": done, "total_bytes": all}));
            }
        });
        let done = work(&progress);
        drop(ended);
        done
    })
}

fn say(options: &Options, mistake: &Mistake) {
    let _ = if options.errors_as_json {
        let said =
            serde_json::json!({"what": mistake.what, "where": mistake.place, "advice": mistake.advice});
        writeln!(io::stderr(), "{said}")
    } else {
        writeln!(io::stderr(), "iodyno-heat: error: {mistake}")
    };
}

fn unit(text: &str) -> Result<Unit, String> {
    let names = || UNITS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    Unit::named(text).ok_or_else(|| format!("one of {}", names()))
}

fn unit_of_time(text: &str) -> Result<Unit, String> {
    unit(text).ok().filter(|unit| unit.is_time()).ok_or_else(|| "one of s, ms, us, ns".to_owned())
}

fn quantity(text: &str) -> Result<Quantity, String> {
    let names = || QUANTITIES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = QUANTITIES.iter().find(|(name, _)| *name == text.replace('_', "-"));
    found.map(|(_, quantity)| *quantity).ok_or_else(|| format!("one of {}", names()))
}

fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| *share > 0.0 && *share <= 1.0)
        .ok_or_else(|| "a share above 0, at most 1".to_owned())
}

fn duration(text: &str) -> Result<i64, String> {
    let wrong = || "a time above zero, such as 1, 0.1 or 100ms".to_owned();
    let width = reduce::bound("--column", text, Unit::S, "ns").map_err(|_| wrong())?;
    (1.0..9e18).contains(&width).then_some(width as i64).ok_or_else(wrong)
}

fn mark(text: &str) -> Result<Mark, String> {
    let (on_clock, number) = match text.strip_prefix('@') {
        Some(number) => (true, number),
        None => (false, text),
    };
    let ns = Unit::S
        .time_of(number.as_bytes())
        .map_err(|reason| format!("{reason}; seconds, such as 12.5 or @1700000000"))?;
    Ok(if on_clock { Mark::OnClock(ns) } else { Mark::AfterFirst(ns) })
}
