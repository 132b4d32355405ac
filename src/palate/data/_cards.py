"""The cards of the data sets that palate knows by name."""

from __future__ import annotations

import msgspec

from palate.records import Card


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark that can be loaded by name, and whether it can be loaded here and now."""

    name: str
    title: str
    people: int = 0
    items: int = 0
    """As loaded; 0 where we have not counted."""
    licence: str
    source: str
    origin: str = "data folder"
    """`built in`, `hub` or `data folder`."""
    folder: str = ""
    """Where in the data folder it is looked for."""
    available: bool = False


LISTINGS = (
    Listing(
        name="mini",
        title="palate mini: twins who want opposite things",
        people=60,
        items=300,
        licence="Apache-2.0",
        source="written for palate",
        origin="built in",
    ),
    Listing(
        name="sim",
        title="Simulated users, whose tastes are known exactly",
        people=40,
        items=400,
        licence="Apache-2.0",
        source="made by palate from the texts of mini",
        origin="built in",
    ),
    Listing(
        name="personalized-rewardbench",
        title="Personalized RewardBench: answers that serve or avoid one asker's rubric",
        people=2830,
        items=2830,
        licence="Apache-2.0",
        source="https://huggingface.co/datasets/QiyaoMa/Personalized-RewardBench (arXiv 2604.07343)",
        origin="hub",
        folder="personalized-rewardbench",
    ),
    Listing(
        name="lamp-qa",
        title="LaMP-QA: questions with the asker's past posts and a private rubric",
        people=2830,
        items=2830,
        licence="see the source",
        source="https://huggingface.co/datasets/alireza7/LaMP-QA (arXiv 2506.00137)",
        origin="hub",
        folder="lamp-qa",
    ),
    Listing(
        name="convarg",
        title="UKPConvArg1: which of two arguments convinces this voter more, and why",
        people=3801,
        items=65335,
        licence="CC BY 4.0",
        source="Habernal and Gurevych, ACL 2016",
        folder="convarg",
    ),
    Listing(
        name="convarg-crowdsample",
        title="UKPConvArgCrowdSample: one vote for each pair of arguments",
        people=1433,
        items=13228,
        licence="CC BY 4.0",
        source="Simpson and Gurevych 2020, Scalable Bayesian preference learning for crowds",
        folder="convarg",
    ),
    Listing(
        name="stackexchange",
        title="Stack Exchange: the answer that the asker accepted, among all answers",
        people=385,
        items=792,
        licence="CC BY-SA 3.0/4.0",
        source="Stack Exchange contributors; item ids name the site and the question",
        folder="stackexchange",
    ),
    Listing(
        name="coauthor",
        title="CoAuthor: the suggestion that a writer took while writing",
        people=61,
        items=12261,
        licence="CC BY-SA 4.0",
        source="Lee, Liang and Yang, CHI 2022",
        folder="coauthor",
    ),
    Listing(
        name="squality",
        title="SQuALITY v1.3: four people's own answers to each question about a story",
        people=24,
        items=2540,
        licence="CC BY 4.0",
        source="Wang et al. 2022",
        folder="squality",
    ),
    Listing(
        name="acl-titles",
        title="ACL titles: the title that an author gave to their abstract",
        people=525,
        items=5294,
        licence="CC BY 4.0",
        source="ACL Anthology",
        folder="acl_titles",
    ),
    Listing(
        name="prism",
        title="PRISM: people from many countries choose among live responses of many models",
        licence="CC BY 4.0 (people's texts), CC BY-NC 4.0 and the models' own licences (responses)",
        source="https://huggingface.co/datasets/HannahRoseKirk/prism-alignment (arXiv 2404.16019)",
        origin="hub",
        folder="prism",
    ),
    Listing(
        name="community-alignment",
        title="Community Alignment: four responses to choose from, in several languages",
        licence="CC BY 4.0",
        source="https://huggingface.co/datasets/facebook/community-alignment-dataset (arXiv 2507.09650)",
        origin="hub",
        folder="community-alignment",
    ),
    Listing(
        name="collective-alignment",
        title="Collective alignment: what annotators rank first for themselves, or for the world",
        licence="see the source",
        source="https://huggingface.co/datasets/openai/collective-alignment-1",
        origin="hub",
        folder="collective-alignment",
    ),
    Listing(
        name="multipref",
        title="MultiPref: pairs of responses, each judged by several people",
        licence="ODC-BY",
        source="https://huggingface.co/datasets/allenai/multipref (arXiv 2410.19133)",
        origin="hub",
        folder="multipref",
    ),
    Listing(
        name="summarize-from-feedback",
        title="Summaries of posts, compared by named workers",
        licence="see the source",
        source="https://huggingface.co/datasets/openai/summarize_from_feedback (arXiv 2009.01325)",
        origin="hub",
        folder="summarize-from-feedback",
    ),
    Listing(
        name="chatbot-arena",
        title="Chatbot Arena conversations: which of two models a judge preferred",
        licence="CC BY 4.0 (prompts), CC BY-NC 4.0 (responses)",
        source="https://huggingface.co/datasets/lmsys/chatbot_arena_conversations (arXiv 2306.05685)",
        origin="hub",
        folder="chatbot-arena",
    ),
    Listing(
        name="arena-140k",
        title="Arena human preferences: votes by session",
        licence="CC BY 4.0 (prompts), terms of the models' providers (responses)",
        source="https://huggingface.co/datasets/lmarena-ai/arena-human-preference-140k",
        origin="hub",
        folder="arena-140k",
    ),
    Listing(
        name="prism-personalized",
        title="PRISM as chosen and rejected by user",
        licence="see the source",
        source="https://huggingface.co/datasets/MichaelR207/prism_personalized_0125",
        origin="hub",
        folder="prism-personalized",
    ),
    Listing(
        name="chatbot-arena-personalized",
        title="Chatbot Arena as chosen and rejected by user",
        licence="see the source",
        source="https://huggingface.co/datasets/MichaelR207/chatbot_arena_personalized_0125",
        origin="hub",
        folder="chatbot-arena-personalized",
    ),
    Listing(
        name="personal-llm",
        title="PersonalLLM: eight responses, ranked by reward models that stand for people",
        licence="CC BY 4.0",
        source="https://huggingface.co/datasets/namkoong-lab/PersonalLLM (arXiv 2409.20296)",
        origin="hub",
        folder="personal-llm",
    ),
    Listing(
        name="psoups",
        title="Personalized soups: pairs chosen for made-up users",
        licence="see the source",
        source="https://huggingface.co/datasets/RiverDong/psoups",
        origin="hub",
        folder="psoups",
    ),
    Listing(
        name="align-x",
        title="AlignX: pairs with what the person wrote and chose before",
        licence="see the source",
        source="https://huggingface.co/datasets/JinaLeejnl/AlignX (arXiv 2503.15463)",
        origin="hub",
        folder="align-x",
    ),
    Listing(
        name="persona-mem",
        title="PersonaMem v2: the answer that suits a persona, among others",
        licence="CC BY 4.0",
        source="https://huggingface.co/datasets/bowen-upenn/PersonaMem-v2",
        origin="hub",
        folder="persona-mem",
    ),
    Listing(
        name="reward-bench",
        title="RewardBench: chosen and rejected, of nobody in particular",
        licence="ODC-BY",
        source="https://huggingface.co/datasets/allenai/reward-bench (arXiv 2403.13787)",
        origin="hub",
        folder="reward-bench",
    ),
    Listing(
        name="reward-bench-2",
        title="RewardBench 2: one right response and several others, of nobody in particular",
        licence="ODC-BY",
        source="https://huggingface.co/datasets/allenai/reward-bench-2 (arXiv 2506.01937)",
        origin="hub",
        folder="reward-bench-2",
    ),
    Listing(
        name="pref-eval",
        title="PrefEval: the option that respects a stated preference, among four",
        licence="see the source",
        source="https://github.com/amazon-science/PrefEval, benchmark_dataset (arXiv 2502.09597)",
        folder="pref-eval",
    ),
    Listing(
        name="lamp",
        title="LaMP: what this person wrote, after what they wrote before",
        licence="CC BY-NC-SA 4.0 (how it was made), that of each source (texts)",
        source="https://lamp-benchmark.github.io (arXiv 2304.11406)",
        folder="lamp",
    ),
    Listing(
        name="longlamp",
        title="LongLaMP: long texts that this person wrote, after what they wrote before",
        licence="see the source",
        source="https://huggingface.co/datasets/LongLaMP/LongLaMP (arXiv 2407.11016)",
        origin="hub",
        folder="longlamp",
    ),
)


def card_of(name: str, version: str, description: str, *notes: str) -> Card:
    """The card of a known data set, with what its loader has to say."""
    listing = next(listing for listing in LISTINGS if listing.name == name)
    return Card(
        name=name,
        title=listing.title,
        version=version,
        licence=listing.licence,
        source=listing.source,
        description=description,
        notes=notes,
    )
