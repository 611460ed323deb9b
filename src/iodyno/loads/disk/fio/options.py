"""Options of fio: which are carried out, which are without effect here, and which are refused with the reason.

Names are those of fio 3.42 (its manual, HOWTO). An option that is in none of the tables is an error.
"""

from __future__ import annotations

from collections.abc import Mapping

ALIASES: Mapping[str, str] = {
    "readwrite": "rw",
    "blocksize": "bs",
    "blocksize_range": "bsrange",
    "ba": "blockalign",
    "io_limit": "io_size",
    "iodepth_batch_submit": "iodepth_batch",
    "timeout": "runtime",
    "fill_fs": "fill_device",
    "start_delay": "startdelay",
    "ss": "steadystate",
    "ss_dur": "steadystate_duration",
    "ss_ramp": "steadystate_ramp_time",
    "bwavgtime_": "bwavgtime",
    "iodepth_batch_complete": "iodepth_batch_complete_min",
    "fileoffset": "offset",
    "nr_files": "nrfiles",
    "ratemin": "rate_min",
    "ratecycle": "rate_cycle",
    "wait_for_previous": "stonewall",
    "disable_bw": "disable_bw_measurement",
    "ss_interval": "steadystate_check_interval",
}
"""Second names."""


def _named(text: str) -> tuple[str, ...]:
    return tuple(text.split())


CARRIED = _named("""
    rw bs bssplit bsrange size filesize nrfiles filename directory ioengine iodepth iodepth_batch_complete_min direct
    buffered sync fsync fdatasync numjobs runtime time_based ramp_time rate rate_iops rate_process thinktime rwmixread
    rwmixwrite percentage_random random_distribution offset offset_increment norandommap randrepeat allrandrepeat
    randseed verify startdelay loops cpus_allowed name description stonewall wait_for kb_base hipri nowait fixedbufs
    thinktime_blocks registerfiles sqthread_poll zero_buffers buffer_compress_percentage blockalign io_size opendir
    filename_format invalidate nice unlink do_verify number_ios cpumask create_only pre_read fadvise_hint rw_sequencer
    file_service_type openfiles iodepth_low
""")
"""Options that mean something here."""

NAMES = _named(
    "rw_sequencer file_service_type fadvise_hint name description filename directory wait_for filename_format opendir"
)
"""Those whose values are no numbers, whatever they look like."""

CHECKS = _named("""
    0 none md5 crc64 crc32 crc32c crc32c-intel crc16 crc7 sha1 sha256 sha512 sha3-224 sha3-256 sha3-384 sha3-512 xxhash meta
    pattern pattern_hdr null
""")
"""Values of `verify` in fio."""

SWITCHES = _named("""
    direct buffered sync time_based norandommap randrepeat allrandrepeat stonewall hipri nowait fixedbufs registerfiles
    sqthread_poll zero_buffers invalidate unlink do_verify create_only pre_read
""")
"""Those that are on without a value."""

_LOGS = _named("""
    write_bw_log write_lat_log write_iops_log write_hist_log log_avg_msec log_hist_msec log_hist_coarseness
    log_window_value log_max_value log_offset log_compression log_compression_cpus log_store_compressed log_unix_epoch
    log_alternate_epoch log_alternate_epoch_clock_id log_entries log_issue_time log_prio per_job_logs bwavgtime
    iopsavgtime percentile_list clat_percentiles lat_percentiles slat_percentiles block_error_percentiles
    significant_figures disable_lat disable_clat disable_slat disable_bw_measurement disk_util status_interval
    unified_rw_reporting stats
""")
_LAYOUT = _named("""
    fallocate create_on_open create_serialize create_fsync overwrite allow_file_create
    allow_mounted_write unlink_each_loop unique_filename
""")
_CHECKS = _named("""
    verify_fatal verify_dump verify_async verify_async_cpus verify_backlog verify_backlog_batch verifysort
    verifysort_nr verify_state_save verify_state_load experimental_verify verify_header_seed verify_interval
    verify_write_sequence
""")
_JOINING = _named("""
    nonvectored userspace_reap iodepth_batch iodepth_batch_complete_max serialize_overlap io_submit_mode
""")
_ENDS = _named("exitall exit_what")
_ERRORS = _named("exitall_on_error continue_on_error ignore_error error_dump")
_BUFFERS = _named(
    "iomem mem iomem_align mem_align lockmem hugepage_size hugepage-size thp refill_buffers scramble_buffers"
)
_LAB = _named("""
    ioprio prio prioclass uid gid unit_base kb_units nodiscard write_hint
    random_generator softrandommap fsync_on_close end_fsync job_start_clock_id
""")

WITHOUT_EFFECT: Mapping[str, str] = {
    **dict.fromkeys(_LOGS, "every interval has counts and a histogram in any case"),
    **dict.fromkeys(_LAYOUT, "the working set is laid out before the trials"),
    **dict.fromkeys(
        _CHECKS,
        "the check of a block is looked at when the load itself reads it, and nothing is read for that",
    ),
    **dict.fromkeys(_JOINING, "how calls are joined is up to the load loop, at a fixed depth"),
    **dict.fromkeys(_ERRORS, "errors are counted, with the first one; a trial that fails is tried again"),
    **dict.fromkeys(_ENDS, "all jobs of a trial end at one instant, none of them when another is done"),
    "max_latency": "a late operation is in the histograms, and ends nothing",
    "cpus_allowed_policy": "the workers of a job share its CPUs",
    **dict.fromkeys(_BUFFERS, "buffers are aligned, filled as `content` says, and made before the start"),
    **dict.fromkeys(_LAB, "iodyno chooses it, or it changes nothing of what is measured here"),
    **dict.fromkeys(
        _named("group_reporting new_group"), "a trial has one group, reported as a whole and for each host"
    ),
    **dict.fromkeys(
        _named("thread threads gtod_reduce gtod_cpu clocksource"),
        "workers are threads, with the cheapest clock there is",
    ),
    **dict.fromkeys(
        _named("exec_prerun exec_postrun"),
        "commands of a job file are not carried out; tunables of iodyno set up hosts",
    ),
    **dict.fromkeys(
        _named("rate_min rate_iops_min rate_cycle rate_ignore_thinktime"),
        "a rate that is not held voids the trial",
    ),
}
"""Options that change nothing here, with the reason. They are named."""

_REPLAY = _named("""
    read_iolog read_iolog_chunked write_iolog replay_no_stall replay_redirect replay_scale replay_time_scale replay_align
    replay_skip merge_blktrace_file merge_blktrace_scalars merge_blktrace_iters
""")
_ZONES = _named("""
    zonemode zonesize zonerange zoneskip zonecapacity max_open_zones job_max_open_zones read_beyond_wp
    zone_reset_threshold zone_reset_frequency ignore_zone_limits
""")
_CONTENTS = _named("""
    verify_pattern verify_pattern_interval verify_offset buffer_pattern dedupe_percentage dedupe_global dedupe_mode
    dedupe_working_set_percentage buffer_compress_chunk trim_percentage trim_verify_zero trim_backlog
    trim_backlog_batch experimental_verify_trim
""")
_ENGINE = _named("""
    force_async cmdprio_percentage cmdprio_class cmdprio cmdprio_hint cmdprio_bssplit sqthread_poll_cpu uncached
    dontcache atomic write_mode cmd_type md_per_io_size hipri_percentage sync_file_range write_barrier offset_align
    profile ioengine_so_path filetype fill_device
""")

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        _REPLAY, "traces are replayed by `workload: {kind: disk, replay: FILE}` of an experiment file"
    ),
    **dict.fromkeys(_ZONES, "zoned devices are not carried"),
    **dict.fromkeys(
        _CONTENTS, "contents are random, zero or compressible by a share, and nothing is discarded"
    ),
    **dict.fromkeys(
        _named("bs_unaligned blocksize_unaligned"),
        "block sizes are drawn as they are written: bssplit, or bsrange",
    ),
    "file_append": "writes begin where the working set does",
    "verify_only": "it reads what an earlier run has written: take rw=read or rw=randread with verify",
    **dict.fromkeys(_ENGINE, "this part of fio is not carried"),
    **dict.fromkeys(
        _named("latency_target latency_window latency_percentile latency_run"),
        "it searches a depth: give iodepth a value here, and levels of queue_depth in an experiment file (iodyno convert)",
    ),
    **dict.fromkeys(
        _named(
            "steadystate steadystate_duration steadystate_ramp_time steadystate_check_interval ss_interval"
        ),
        "it ends the job where the rate is steady: use --until with a rule",
    ),
    **dict.fromkeys(
        _named("flow flow_id flow_watermark flow_sleep"), "jobs that wait for each other are not carried"
    ),
    **dict.fromkeys(
        _named("thinktime_spin thinktime_iotime thinktime_blocks_type"),
        "a pause is asleep (thinktime), after so many blocks (thinktime_blocks)",
    ),
    **dict.fromkeys(
        _named("numa_cpu_nodes numa_mem_policy cgroup cgroup_weight cgroup_nodelete ioscheduler"),
        "a host is set up by its tunables (iodyno tunables)",
    ),
    **dict.fromkeys(
        _named("hostname port protocol listen syscalls"),
        "networks are measured by `iodyno tcp` and `iodyno rr`",
    ),
}
"""Options that change what is measured in a way that is not carried out, with what to do instead."""


def known() -> tuple[str, ...]:
    """Every name that a job file may hold."""
    return tuple(dict.fromkeys((*CARRIED, *WITHOUT_EFFECT, *REFUSED, *ALIASES)))
