package status

import (
	"slices"
	"time"

	"github.com/exthost/exthost/protocol"
)

// PastCall is a finished call with its payloads.
type PastCall struct {
	Time time.Time `json:"time"` // end of the call
	CallEvent
	Request *Excerpt `json:"request,omitempty"` // params after policies and hooks; nil in a list of calls
	// the result as the caller got it; nil in a list of calls and for a failed call
	Response *Excerpt `json:"response,omitempty"`
}

// Question is an unanswered request from an extension to the caller of a call in flight.
type Question struct {
	// the request: elicitation/create, sampling/createMessage or roots/list
	Method    string    `json:"method"`
	Since     time.Time `json:"since"`
	Extension string    `json:"extension,omitempty"`
	Tool      string    `json:"tool,omitempty"`    // registered name; "" for other requests than tools/call
	Caller    string    `json:"caller,omitempty"`  // authenticated by the server; "" if anonymous
	Node      string    `json:"node,omitempty"`    // cluster node of the caller; "" for this host
	Session   string    `json:"session,omitempty"` // "" without a session
	Client    string    `json:"client,omitempty"`  // name and version as stated by the client
}

// Excerpt is the beginning of a payload, with secrets masked.
type Excerpt struct {
	Text  string `json:"text"`          // at most 4 KiB
	Bytes int    `json:"bytes"`         // of the whole payload
	Cut   bool   `json:"cut,omitempty"` // the payload is longer than Text
}

// History counts the calls of the last hour, with samples of the load.
type History struct {
	Step   protocol.Duration `json:"step_ms"` // time that one point covers
	Points []Point           `json:"points"`  // oldest first, without empty steps
}

// Point counts the calls that ended in one step of a [History].
type Point struct {
	Time       time.Time `json:"time"` // start of the step
	Calls      int64     `json:"calls"`
	Denied     int64     `json:"denied"`            // of Calls, see [Outcome.IsDenial]
	Errors     int64     `json:"errors"`            // of Calls: any other error, the caller's included
	ToolErrors int64     `json:"tool_errors"`       // of Calls: the tool ran and reported a failure
	Latency    *Latency  `json:"latency,omitempty"` // nil if no call reached an instance
	// memory of the host and its processes, sampled every 10 s, or every minute if the host is idle; 0 without a sample
	Memory int64 `json:"memory_bytes,omitempty"`
	Busy   int64 `json:"in_flight,omitempty"` // calls in flight and queued when memory was sampled
}

// ToolUse counts the calls of a tool since the host was opened, with their time in instances.
type ToolUse struct {
	Calls      int64    `json:"calls"`
	Denied     int64    `json:"denied"`            // of Calls, see [Outcome.IsDenial]
	Errors     int64    `json:"errors"`            // of Calls: any other error, the caller's included
	ToolErrors int64    `json:"tool_errors"`       // of Calls: the tool ran and reported a failure
	Latency    *Latency `json:"latency,omitempty"` // nil if no call reached an instance
}

// Client is an MCP client of the host: a session, or a client without sessions (2026-07-28) that made one of the
// latest calls.
type Client struct {
	Name    string `json:"name,omitempty"`    // name and version as stated by the client
	Caller  string `json:"caller,omitempty"`  // authenticated by the server; "" if anonymous
	Toolset string `json:"toolset,omitempty"` // of its session; "" for everything
	// how tools are listed to its session: all, or search; "" without a session
	Tools     string     `json:"tools,omitempty"`
	Session   string     `json:"session,omitempty"`   // "" without a session
	Protocol  string     `json:"protocol"`            // the revision of MCP
	Front     string     `json:"front,omitempty"`     // of a session: http, sse or stdio
	Since     time.Time  `json:"since,omitzero"`      // start of the session
	Extension string     `json:"extension,omitempty"` // the only extension of the session; "" for all
	LastCall  *time.Time `json:"last_call,omitempty"` // nil if the client made none of the latest calls
}

// NamedClient is a client in server.clients of the configuration.
type NamedClient struct {
	Name     string     `json:"name"`
	LastUsed *time.Time `json:"last_used,omitempty"` // time of the latest accepted request; nil: none since the start
}

// Load returns the memory of the host and its processes in bytes, and the number of calls in flight and queued. The
// memory is 0 unless s is a result of exthost.Admin.Status.
func (s *Status) Load() (memory, busy int64) {
	if s.Host != nil {
		memory = s.Host.RSS
	}
	for _, x := range s.Processes() {
		for _, i := range x.Instances {
			memory += i.RSS
			busy += int64(i.InFlight + i.Queued)
		}
	}
	return memory, busy
}

// Processes returns everything with processes: extensions, destinations and policies. The results share their instances
// with s.
func (s *Status) Processes() []Extension {
	list := slices.Clone(s.Extensions)
	for _, d := range s.Destinations {
		list = append(list, d.Extension)
	}
	for _, p := range s.Policies {
		if p.Process != nil {
			list = append(list, *p.Process)
		}
	}
	return list
}

// SetMemory sets the memory of each process by pid, in bytes.
func (s *Status) SetMemory(byPID map[int]int64) {
	for _, x := range s.Processes() {
		for i := range x.Instances {
			if pid := x.Instances[i].PID; pid > 0 {
				x.Instances[i].RSS = byPID[pid]
			}
		}
	}
}
