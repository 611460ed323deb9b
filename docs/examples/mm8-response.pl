# Response time of M/M/m at five loads. Arguments: servers, service time in seconds.
use pdq;
$cores = $ARGV[0];
$service = $ARGV[1];
$most = $cores / $service;
for ($rate = 0; $rate < $most; $rate += $most / 5) {
    pdq::Init("M/M/m");
    pdq::CreateOpen("io", $rate);
    pdq::CreateMultiNode($cores, "cores", $pdq::CEN, $pdq::FCFS);
    pdq::SetDemand("cores", "io", $service);
    pdq::SetWUnit("IO");
    pdq::SetTUnit("Secs");
    pdq::Solve($pdq::CANON);
    $response = pdq::GetResponse($pdq::TRANS, "io");
    $busy = pdq::GetUtilization("cores", "io", $pdq::TRANS);
    printf "%.6f %.0f %%\n", $response, 100 * $busy;
}
