"""Speed against peers, and the instrument's own cost: ratios measured side by side, alternating, in one run."""
