"""The ledger of losses: a row for every visit of a sequence, kept through crashes."""
