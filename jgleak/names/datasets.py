"""The data sets, and what can be learnt on each: the default first, empty where there is no choice."""

from __future__ import annotations

from collections.abc import Mapping

ALL = "all"
"""All label columns of a table at once."""

LABELS = ("graph", "node")
"""What has the labels, where either can."""

TASKS: Mapping[str, tuple[str, ...]] = {
    "embedded": (),
    "tox21": ("NR-AR", "NR-AR-LBD", "NR-AhR", "NR-Aromatase", "NR-ER", "NR-ER-LBD", "NR-PPAR-gamma")
    + ("SR-ARE", "SR-ATAD5", "SR-HSE", "SR-MMP", "SR-p53", ALL),
    "clintox": ("FDA_APPROVED", "CT_TOX", ALL),
    "sider": ("Hepatobiliary disorders", "Metabolism and nutrition disorders", "Product issues", "Eye disorders")
    + ("Investigations", "Musculoskeletal and connective tissue disorders", "Gastrointestinal disorders")
    + ("Social circumstances", "Immune system disorders", "Reproductive system and breast disorders")
    + ("Neoplasms benign, malignant and unspecified (incl cysts and polyps)",)
    + ("General disorders and administration site conditions", "Endocrine disorders")
    + ("Surgical and medical procedures", "Vascular disorders", "Blood and lymphatic system disorders")
    + ("Skin and subcutaneous tissue disorders", "Congenital, familial and genetic disorders")
    + ("Infections and infestations", "Respiratory, thoracic and mediastinal disorders")
    + ("Psychiatric disorders", "Renal and urinary disorders", "Pregnancy, puerperium and perinatal conditions")
    + ("Ear and labyrinth disorders", "Cardiac disorders", "Nervous system disorders")
    + ("Injury, poisoning and procedural complications", ALL),
    "bbbp": ("p_np",),
    "freesolv": ("expt",),
    **dict.fromkeys(("mutag", "ptc_mr", "enzymes", "nci1", "coil-rag"), ()),
    **dict.fromkeys(("citeseer", "facebook", "github"), LABELS),
    "pokec": ("gender", "region", "I_am_working_in_field"),
    **dict.fromkeys(("synthetic-er", "synthetic-ba", "synthetic-regular", "synthetic-tree", "synthetic-glg"), LABELS),
}

RATING_SETS = (
    "flixster",
    "douban",
    "yahoo-music",
    "movielens-100k",
    "movielens-1m",
    "movielens-10m",
    "synthetic-ratings",
)
"""Rating sets, of which clients of recommenders are made."""
