"""The section `workload` of a load whose hosts need no other end, and traces to replay."""
