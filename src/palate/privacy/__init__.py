"""What a person may ask of those who hold their data: to be forgotten, to see it, and to know what a model tells."""

from palate.privacy._export import Export, export_user
from palate.privacy._forget import finish_erasures, forget
from palate.privacy._membership import Estimated, Leak, allowed_area, allowed_rate
from palate.privacy._places import Place
from palate.privacy._push import Done, Push, plan_push, push
from palate.privacy._pushed import Pushed, pushed_file, pushes_of, read_pushes
from palate.privacy._receipt import Checked, Receipt, check_receipt, read_receipt, write_receipt
from palate.privacy._rewrite_lines import remove_drafts, rewrite
from palate.privacy._shadows import Target, attack, target_of
from palate.privacy._traces import Trace

__all__ = [
    "Checked",
    "Done",
    "Estimated",
    "Export",
    "Leak",
    "Place",
    "Push",
    "Pushed",
    "Receipt",
    "Target",
    "Trace",
    "allowed_area",
    "allowed_rate",
    "attack",
    "check_receipt",
    "export_user",
    "finish_erasures",
    "forget",
    "plan_push",
    "push",
    "pushed_file",
    "pushes_of",
    "read_pushes",
    "read_receipt",
    "remove_drafts",
    "rewrite",
    "target_of",
    "write_receipt",
]
