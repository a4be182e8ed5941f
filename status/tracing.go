package status

// Tracing says what became of the spans of calls, which go to a collector of traces.
type Tracing struct {
	Endpoint string `json:"endpoint"`          // where they are sent
	Sent     int64  `json:"sent"`              // spans that the collector took
	Dropped  int64  `json:"dropped"`           // spans that were not kept, because too many waited to be sent
	Failed   int64  `json:"failed"`            // spans that could not be sent
	Problem  string `json:"problem,omitempty"` // why the last attempt to send failed; "" when it did not
	Next     string `json:"next,omitempty"`    // what to do about the problem
}
