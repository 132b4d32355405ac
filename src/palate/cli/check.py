"""`palate check`: is a reward model of one's own sound?"""

from __future__ import annotations


def check(rm: str, /) -> None:
    """Put a reward model through the contract: same score whatever the batch, sound on hard input.

    Parameters
    ----------
    rm
        A reward model, such as `embedding` or `./mine.py:MyReward`.
    """
    from palate.report import make_console
    from palate.rewards import check_reward_model, make_reward_model

    console = make_console()
    for clause in check_reward_model(make_reward_model(rm)):
        remark = f" ({clause.remark})" if clause.remark else ""
        console.print(f"ok  {clause.clause}{remark}", markup=False, highlight=False)
