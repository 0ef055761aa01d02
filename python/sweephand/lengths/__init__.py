"""Plans of sequences whose lengths are in hand, without a source."""
