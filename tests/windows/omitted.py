"""What tests cannot do on Windows: a test whose source has such words is skipped there, with the reason."""

import inspect
import re

import pytest

WORDS = {
    r"symlink|os\.link\b|if_it_is_mapped|st_ino": "links, and files in memory, are another matter",
    r"(assert|match=).*(\}/|\.\*/)|somebody_else_is_refused|posixpath|their_meaning_must|"
    "a_record_holds|are_not_averaged|beside_and_alone": "a path in a message has backslashes there",
    r"grow_in_line|how_far_it_is": "its clocks go in steps of 16 ms",
    r"long_names_that_are_legal|not_utf_8|written_as_in_a_shell": "names and the home folder are other ones",
    r"neither_read_nor_teach|trailers_are_refused|refused_faster": "a refused body ends in a reset connection",
    r"any_page|may_hold_more|NUMBA_DISABLE_JIT|closed_streams": "other hosts, streams and caches",
    r"none_while_it_is_read|shutil.rmtree\(folder\)": "files that are open keep their names",
    r"chmod|umask|geteuid|getuid|0o[0-7]{3}|AS_ROOT|not_root|st_mode": "files have other rights",
    r"SIGHUP|SIGKILL|SIGSTOP|SIGPIPE|SIGALRM|os\.kill\(|send_signal|SIGTERM|preexec_fn|killpg": "signals of Linux",
    r"after_an_interruption": "signals of Linux",
    r"under_attack_ends": "ending a server is killing it there",
    r'fork\(|_forked|pass_fds|mkfifo|os\.pipe|\bpty\b|/dev[/.]|/proc/|nohup|AF_UNIX|bash|\["sed"': "devices and shells",
    r"resource\.|sched_setaffinity|small_disk|RLIMIT|fallocate": "limits of the kernel",
    r"too_many_waiting|who_stops_reading": "many clients are slower, and what they do not read is kept",
    r"shared_memory|\bmpi|Ranks\(": "several ranks need Linux",
}


def skip_on_windows(items: list[pytest.Item]) -> None:
    """Skip the tests of which Windows cannot run a part."""
    for item in items:
        source = inspect.getsource(item.function) if isinstance(item, pytest.Function) else ""
        for words, reason in WORDS.items():
            if found := re.search(words, source):
                item.add_marker(pytest.mark.skip(reason=f"on Windows: {reason} ({found[0]})"))
                break
