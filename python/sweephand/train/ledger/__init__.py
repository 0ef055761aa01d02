"""The ledger of losses: one for every visit of a sequence, kept through crashes."""
