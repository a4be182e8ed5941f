package status

// Tracing counts the spans sent to a trace collector.
type Tracing struct {
	Endpoint string `json:"endpoint"`          // of the collector
	Sent     int64  `json:"sent"`              // spans accepted by the collector
	Dropped  int64  `json:"dropped"`           // spans dropped because too many were waiting
	Failed   int64  `json:"failed"`            // spans that could not be sent
	Problem  string `json:"problem,omitempty"` // why the last attempt failed; "" if it succeeded
	Next     string `json:"next,omitempty"`    // what to do about the problem
}
