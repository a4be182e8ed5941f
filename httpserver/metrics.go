//go:build !slim

package httpserver

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// Metrics returns a handler that serves the metrics of a host to Prometheus. It reads the host's own counters at each
// scrape. Label values come from closed sets or the configuration; tools beyond 4096 share one value.
func Metrics(h *exthost.Host) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{Host: h}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 2})
}

// collector is a [prometheus.Collector] of a host's measures.
type collector struct{ Host *exthost.Host }

var (
	descInfo       = desc("info", "1, with the version of the host", "version")
	descSessions   = desc("sessions", "MCP sessions")
	descListeners  = desc("event_listeners", "Readers of events")
	descTools      = desc("tools", "Tools in the catalog", "extension")
	descGeneration = desc("catalog_generation", "How often the catalog has changed")

	descState = desc("extension_state", "1 for the state that an extension is in, 0 for the others", "extension",
		"state")
	descRestarts = desc("extension_restarts_total", "Instances that followed one that ended unasked", "extension")
	descStarts   = desc("handshake_duration_seconds", "From the spawn of an instance until it could be called",
		"extension")
	descMemory = desc("extension_memory_bytes", "Resident memory of an extension's processes and those they started",
		"extension")
	descBreakers = desc("breakers", "Instances by the state of their breaker", "extension", "breaker", "state")

	descCalls = desc("calls_total", "Calls of tools by outcome: ok, tool_error, or the kind of the error",
		"extension", "tool", "outcome")
	descDuration = desc("call_duration_seconds",
		"How long instances had the calls that reached one, the wait for an instance not included; a call counts once",
		"extension")
	descInFlight = desc("calls_in_flight", "Calls that instances have", "extension")
	descQueued   = desc("calls_queued", "Calls that wait for an instance", "extension")
	descBytes    = desc("payload_bytes_total", "Bytes of params sent to an extension, and of results received",
		"extension", "direction")
	descLate    = desc("late_replies_total", "Answers to calls that nobody waited for any more", "extension")
	descUnknown = desc("unknown_replies_total", "Answers to ids never sent", "extension")
	descNoise   = desc("noise_lines_total", "Lines on stdout that were no frames", "extension")

	descSpans = desc("spans_total",
		"Spans of calls for a collector of traces: sent, dropped because too many waited, or failed to be sent",
		"outcome")
	descDecisions = desc("policy_decisions_total",
		"Decisions of policies by outcome: continue, rejected, plugin_error or dropped", "policy", "category", "flow",
		"outcome")
	descShadowed = desc("policy_shadowed_total", "Decisions of policies in mode shadow that would have counted",
		"policy", "flow")
	descRejected = desc("policy_rejections_total", "What policies rejected, or would have in mode shadow", "policy",
		"flow", "code")
	descDeciding = desc("policy_duration_seconds", "How long policies took to decide", "policy", "flow")
	descHooks    = desc("hook_runs_total", "Runs of handlers of hooks", "point", "extension", "outcome")
	descHooking  = desc("hook_duration_seconds", "How long handlers of hooks took", "point")

	descTokens      = desc("rejected_tokens_total", "Requests with a token that was wrong or had ended")
	descHandshakes  = desc("tls_handshake_failures_total", "TLS handshakes of the server that failed")
	descCertificate = desc("tls_certificate_expiry_timestamp_seconds",
		"When the server's certificate ends, as a Unix time")

	descNodes     = desc("cluster_nodes", "Other nodes of the cluster by state", "state")
	descConnected = desc("cluster_connected", "1 while the host is connected to a server of its cluster")
	descNodeCalls = desc("cluster_calls_total", "Calls to a node by outcome: answered by the extension, or failed",
		"node", "outcome")
	descNodeIn = desc("cluster_received_calls_total", "Calls from a node", "node")
	descRTT    = desc("cluster_rtt_seconds", "To a node and back; with an empty node, to the server", "node")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("exthost_"+name, help, labels, nil)
}

// Describe implements [prometheus.Collector].
func (c collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descSpans, descInfo, descSessions, descListeners, descTools, descGeneration, descState, descRestarts,
		descStarts, descMemory, descBreakers,
		descCalls, descDuration, descInFlight, descQueued, descBytes, descLate, descUnknown, descNoise, descDecisions,
		descShadowed, descRejected, descDeciding, descHooks, descHooking,
		descTokens, descHandshakes, descCertificate, descNodes, descConnected, descNodeCalls, descNodeIn, descRTT,
	} {
		descs <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	m, s := c.Host.Admin().Measures(), sink(metrics)
	s.gauge(descInfo, 1, m.Status.Version)
	s.gauge(descSessions, m.Sessions)
	s.gauge(descListeners, m.Listeners)
	s.gauge(descGeneration, int(m.Status.Generation))
	if t := m.Status.Tracing; t != nil {
		s.spans(t)
	}
	if of := m.Status.Cluster; of != nil {
		s.cluster(of)
	}
	if front := m.Status.Server; front != nil {
		s.server(front)
	}
	seen := make(map[string]bool)
	for _, x := range m.Status.Extensions {
		if seen[x.ID] {
			continue // left out, because another extension has the id
		}
		seen[x.ID] = true
		s.gauge(descTools, len(x.Tools), x.ID)
		s.status(&x)
	}
	for _, d := range m.Status.Destinations {
		s.status(&d.Extension)
	}
	for _, p := range m.Status.Policies {
		if seen[p.Name+"\x00policy"] {
			continue // disabled; another policy has its name
		}
		seen[p.Name+"\x00policy"] = true
		s.policy(&p)
		if p.Process != nil {
			s.status(p.Process)
		}
	}
	for _, x := range m.Extensions {
		s.extension(&x)
	}
	for _, k := range m.Calls {
		s.counter(descCalls, k.Count, k.Extension, k.Tool, string(k.Outcome))
	}
	for _, p := range m.Policies {
		s.histogram(descDeciding, p.Decisions, p.Policy, string(p.Flow))
	}
	for _, p := range m.Points {
		s.histogram(descHooking, p.Runs, string(p.Point))
	}
	for _, k := range m.Hooks {
		s.counter(descHooks, k.Count, string(k.Point), k.Extension, string(k.Outcome))
	}
}

// extensionStates are the values of the label state.
var extensionStates = []string{
	string(supervisor.Idle), string(supervisor.Spawning), string(supervisor.Ready), string(supervisor.Restarting),
	string(supervisor.Draining),
	string(supervisor.Failed), string(supervisor.Shutdown), status.StateSkipped, status.StateUntrusted,
	status.StateDisabled, status.StateNotReady,
}

// sink takes the metrics of one scrape.
type sink chan<- prometheus.Metric

func (s sink) status(x *status.Extension) {
	for _, state := range extensionStates {
		is := 0
		if state == x.State {
			is = 1
		}
		s.gauge(descState, is, x.ID, state)
	}
	breakers := make(map[string]int)
	inFlight, queued, memory := 0, 0, 0
	for _, i := range x.Instances {
		inFlight, queued, memory = inFlight+i.InFlight, queued+i.Queued, memory+int(i.RSS)
		if i.Breaker != "" {
			breakers[i.Breaker]++
		}
	}
	s.gauge(descInFlight, inFlight, x.ID)
	s.gauge(descQueued, queued, x.ID)
	s.gauge(descMemory, memory, x.ID)
	for state, n := range breakers {
		s.gauge(descBreakers, n, x.ID, x.Breaker, state)
	}
}

func (s sink) extension(x *status.ExtensionMeasure) {
	s.counter(descRestarts, x.Restarts, x.ID)
	s.histogram(descStarts, x.Starts, x.ID)
	s.histogram(descDuration, x.Calls, x.ID)
	s.counter(descBytes, x.Sent, x.ID, "sent")
	s.counter(descBytes, x.Received, x.ID, "received")
	s.counter(descLate, int64(x.Late), x.ID)
	s.counter(descUnknown, int64(x.Unknown), x.ID)
	s.counter(descNoise, int64(x.Noise), x.ID)
}

func (s sink) spans(t *status.Tracing) {
	for outcome, n := range map[string]int64{"sent": t.Sent, "dropped": t.Dropped, "failed": t.Failed} {
		s.counter(descSpans, n, outcome)
	}
}

func (s sink) server(front *status.Server) {
	s.counter(descTokens, front.RejectedTokens.Count)
	s.counter(descHandshakes, front.FailedHandshakes.Count)
	if ends := front.CertificateEnds; ends != nil {
		s.gauge(descCertificate, int(ends.Unix()))
	}
}

func (s sink) cluster(c *status.Cluster) {
	connected := 0
	if c.Server != "" {
		connected = 1
	}
	s.gauge(descConnected, connected)
	s.rtt(c.RTT, "")
	states := map[string]int{status.NodeReady: 0, status.NodeAway: 0, status.NodeLeaving: 0}
	for _, n := range c.Nodes {
		states[n.State]++
		s.rtt(n.RTT, n.Name)
		s.counter(descNodeCalls, int64(n.Out-n.Failed), n.Name, "answered")
		s.counter(descNodeCalls, int64(n.Failed), n.Name, "failed")
		s.counter(descNodeIn, int64(n.In), n.Name)
	}
	for state, n := range states {
		s.gauge(descNodes, n, state)
	}
}

// rtt adds the round trip time to a node, unless it is unknown.
func (s sink) rtt(d time.Duration, node string) {
	if d > 0 {
		s <- prometheus.MustNewConstMetric(descRTT, prometheus.GaugeValue, d.Seconds(), node)
	}
}

func (s sink) policy(p *status.Policy) {
	for _, c := range p.Calls {
		for outcome, n := range map[governance.Outcome]int64{
			governance.Continue:    c.Continue,
			governance.Rejected:    c.Rejected,
			governance.PluginError: c.Errors,
			governance.Dropped:     c.Dropped,
		} {
			s.counter(descDecisions, n, p.Name, string(p.Category), string(c.Flow), string(outcome))
		}
		s.counter(descShadowed, c.Shadow, p.Name, string(c.Flow))
		for code, n := range c.Codes {
			s.counter(descRejected, n, p.Name, string(c.Flow), code)
		}
	}
}

func (s sink) gauge(d *prometheus.Desc, v int, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
}

func (s sink) counter(d *prometheus.Desc, v int64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func (s sink) histogram(d *prometheus.Desc, v status.Durations, labels ...string) {
	below := make(map[float64]uint64, len(v.Below))
	for bound, n := range v.Below {
		below[bound.Seconds()] = n
	}
	s <- prometheus.MustNewConstHistogram(d, v.Count, v.Sum.Seconds(), below, labels...)
}
