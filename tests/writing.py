"""Names of the requests that change stored data or settings, as tests of permissions take them."""

WRITING = frozenset(
    {
        *("label_topic", "rebuild_index", "refine_summary", "prune_index", "pin", "correct", "retract", "forget"),
        "reject_hint",
        *("alias_project", "split_project", "undo_project", "pause_capture", "resume_capture"),
        *("exclude", "include", "run_job", "pause_job", "resume_job"),
        *("share_to", "share_project", "unshare_project", "share_now", "share_off"),
    }
)
