"""Reward models that know the user: methods, training, protocols."""

from palate.personal._costs import measure_cost
from palate.personal._features import Features
from palate.personal._files import (
    ErasedFromModel,
    count_marks,
    count_points,
    describe_model,
    erase_users,
    findings_on_models,
    spent_by_models,
    state_of,
    strip_model,
)
from palate.personal._folds import Fold, make_folds, units
from palate.personal._lora import LoraModel
from palate.personal._lora_classifier import LoraSettings
from palate.personal._method import (
    METHODS,
    TUNED,
    Method,
    MethodSettings,
    method_of_file,
    method_type,
    personal_spec,
    refuse_code_of_members,
)
from palate.personal._model import PersonalModel
from palate.personal._pairs import Known, Pairs
from palate.personal._private import (
    PRIVATE_METHODS,
    CurvePoint,
    PrivacySettings,
    Spent,
    curve_svg,
    epsilons,
    learn_privately,
    privacy_curve,
    private_specs,
)
from palate.personal._recipe import Recipe, TrainedModel, adapt_users, load_personal, parse_method, read_choices
from palate.personal._reproduce import REPRODUCTIONS, accuracy_lines, gain_lines, headroom_lines, reproduce
from palate.personal._train import IMPERSONAL, train
from palate.personal._user_tokens import UserTokensModel, UserTokensSettings

__all__ = [
    "IMPERSONAL",
    "METHODS",
    "PRIVATE_METHODS",
    "REPRODUCTIONS",
    "TUNED",
    "CurvePoint",
    "ErasedFromModel",
    "Features",
    "Fold",
    "Known",
    "LoraModel",
    "LoraSettings",
    "Method",
    "MethodSettings",
    "Pairs",
    "PersonalModel",
    "PrivacySettings",
    "Recipe",
    "Spent",
    "TrainedModel",
    "UserTokensModel",
    "UserTokensSettings",
    "accuracy_lines",
    "adapt_users",
    "count_marks",
    "count_points",
    "curve_svg",
    "describe_model",
    "epsilons",
    "erase_users",
    "findings_on_models",
    "gain_lines",
    "headroom_lines",
    "learn_privately",
    "load_personal",
    "make_folds",
    "measure_cost",
    "method_of_file",
    "method_type",
    "parse_method",
    "personal_spec",
    "privacy_curve",
    "private_specs",
    "read_choices",
    "refuse_code_of_members",
    "reproduce",
    "spent_by_models",
    "state_of",
    "strip_model",
    "train",
    "units",
]
