//! How a command of the agent that people type ends.

use std::io::Write;
use std::process::ExitCode;

/// Exit code of `ended`; an error is said on stderr first.
pub fn of(ended: &std::io::Result<()>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough, as `iodyno-agent facts | head -1` does.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "iodyno-agent: error: {error}");
            ExitCode::from(70)
        }
    }
}
