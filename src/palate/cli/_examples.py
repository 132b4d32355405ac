"""Two lines to begin with for every command; its help shows them first."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, str]] = {
    "eval": (
        "palate eval mini --rm embedding --view none --view posts:5 --view swapped",
        "palate eval prefs.csv --rm judge:ollama/llama3.2 --limit 50",
    ),
    "audit": ("palate audit mini", "palate audit prefs.csv --claimed 0.86"),
    "audit plan": ("palate audit plan --gain 5", "palate audit plan --gain 3 --items 20 --items 40 --check"),
    "check": ("palate check embedding", "palate check ./mine.py:MyReward"),
    "compare": ("palate compare runs/FIRST latest", "palate compare runs/FIRST runs/SECOND runs/THIRD --controls"),
    "merge": (
        "palate merge runs/shard-1-of-2 runs/shard-2-of-2",
        "palate merge runs/shard-1-of-2 runs/shard-2-of-2 --json",
    ),
    "report": ("palate report latest", "palate report runs/NAME --without-users"),
    "reproduce": ("palate reproduce convarg", "palate reproduce convarg --data ./data-sets --json"),
    "selftest": ("palate selftest mini", "palate selftest prefs.csv --points 5,10 --tries 20"),
    "train": (
        "palate train mini --method per-user --method history-attention",
        "palate train prefs.csv --method all --protocol unseen",
    ),
    "adapt": (
        "palate adapt runs/NAME/models/per-user prefs.csv",
        "palate adapt runs/NAME/models/per-user prefs.csv --user ada",
    ),
    "bon": (
        "palate bon mini --critic reference -n 8 --limit 10",
        "palate bon mini --critic reference --policy openai/gpt-4o-mini -n 4",
    ),
    "guide": (
        "palate guide mini --limit 10",
        "palate guide mini --critic reference --weight 0 --weight 5 --limit 3",
    ),
    "ppo": (
        "palate ppo mini --rm embedding --critic reference --steps 20",
        "palate ppo mini --rm embedding --critic reference --policy smollm2,device=cuda --lora 16",
    ),
    "reach": (
        "palate reach mini --critic reference --limit 20",
        "palate reach mini --critic reference --rm embedding --rm longest --sketch 32",
    ),
    "steer": (
        "palate steer mini --limit 3 -n 4 --tokens 32",
        "palate steer mini --in-context posts:5 --in-context persona --limit 20",
    ),
    "study": ("palate study plan.toml --check", "palate study plan.toml --at-once 2"),
    "build": ("palate build plan.toml --example stackexchange", "palate build plan.toml --dry-run"),
    "collect": ("palate collect init my-project", "palate collect serve my-project"),
    "collect init": ("palate collect init my-project", "palate collect init my-survey --example survey"),
    "collect serve": ("palate collect serve my-project", "palate collect serve my-project --port 0"),
    "collect invite": ("palate collect invite my-project -n 10", "palate collect invite my-project --crowd"),
    "collect status": ("palate collect status my-project", "palate collect status my-project --json"),
    "collect export": ("palate collect export my-project", "palate collect export my-project --json"),
    "collect import": (
        "palate collect import prefs.csv my-project",
        "palate collect import answers.json my-project --from label-studio",
    ),
    "collect plan": ("palate collect plan --gain 5", "palate collect plan --pilot my-project"),
    "collect forget": ("palate collect forget ada my-project", "palate collect forget ada"),
    "collect retention": ("palate collect retention my-project", "palate collect retention"),
    "collect backup": ("palate collect backup all.zip my-project", "palate collect backup all.zip"),
    "collect restore": (
        "palate collect restore all.zip my-project",
        "palate collect restore all.zip my-project --force",
    ),
    "data": ("palate data list", "palate data check prefs.csv"),
    "data list": ("palate data list", "palate data list --json"),
    "data show": ("palate data show mini", "palate data show prefs.csv --user ada"),
    "data check": ("palate data check prefs.csv", "palate data check prefs.csv,user=annotator --json"),
    "data example": ("palate data example prefs.csv", "palate data example small.csv --people 20 --choices 8"),
    "data convert": ("palate data convert prefs.csv ./mine", "palate data convert lamp-qa ./pairs --pairs --scrub"),
    "data export-user": (
        "palate data export-user ./mine ada",
        "palate data export-user ./mine ada --run runs/NAME --force",
    ),
    "data push": (
        "palate data push ./mine your-name/mine --dry-run",
        "palate data push latest your-name/my-run --without-users",
    ),
    "data schema": ("palate data schema", "palate data schema comparisons"),
    "forget": ("palate forget ada --data ./mine --dry-run", "palate forget ada --data ./mine --run latest"),
    "privacy": (
        "palate privacy attack prefs.csv --method per-user",
        "palate privacy strip runs/NAME/models/per-user ./shared-model",
    ),
    "privacy attack": (
        "palate privacy attack prefs.csv --method per-user",
        "palate privacy attack prefs.csv --model runs/NAME/models/per-user",
    ),
    "privacy strip": (
        "palate privacy strip runs/NAME/models/per-user ./shared-model",
        "palate privacy strip ./mine ./shared-model",
    ),
    "serve": ("palate serve --rm embedding --benchmark mini", "palate serve --rm judge:ollama/llama3.2 --port 0"),
    "leaderboard": ("palate leaderboard runs", "palate leaderboard runs --without-users --title Cooking"),
    "runs": ("palate runs", "palate runs elsewhere --json"),
    "submit": ("palate submit check runs/NAME", "palate submit import theirs_outputs.jsonl reward-bench"),
    "submit check": ("palate submit check latest", "palate submit check runs/NAME --board ./site"),
    "submit import": (
        "palate submit import theirs_outputs.jsonl reward-bench",
        "palate submit import log.eval ./mine --model theirs",
    ),
    "list": ("palate list", "palate list rm"),
    "completion": ("palate completion bash", "palate completion zsh"),
    "doctor": ("palate doctor", "palate doctor --json"),
}

EVERY_COMMAND = (
    "Every command takes `--config FILE` (options from a TOML file; the command line wins), `--device` and `--dtype` "
    "(for every model that runs on this machine), `--quiet` (results and errors only), `--verbose` (also what "
    "libraries log) and `--traceback` (where an error arose)."
)


def examples_of(command: str) -> str:
    """The examples of a command in Markdown; empty where there are none, as for a command of a plug-in."""
    return "  \n".join(f"`{line}`" for line in EXAMPLES.get(command, ()))
