"""The published regression table of a study of 2014: CPU of a hypervisor in per cent of 8 cores, 32 points x 20 runs.

Coefficients on the -1/+1 scale, all with one standard error; FC is -1 and NFS +1.
"""

from bench.decision_campaigns import COEFFICIENTS as CODED
from bench.decision_campaigns import RESIDUAL_SD as RESIDUAL_SD

from iodyno.analysis.cost_model.coding import FactorScale

FACTORS = (
    FactorScale("read", "number", (0.0, 100.0), "%"),
    FactorScale("rand", "number", (0.0, 100.0), "%"),
    FactorScale("block", "size", (4096.0, 8192.0)),
    FactorScale("protocol", "word", ("fc", "nfs")),
    FactorScale("iops", "rate", (1000.0, 4000.0)),
)
COEFFICIENTS = {name or "intercept": value for name, value in CODED.items()}
STANDARD_ERROR = 0.018130
RESIDUAL_DF = 624
RUNS = 640
