package status

import (
	"slices"
	"time"

	"github.com/exthost/exthost/protocol"
)

// PastCall is a call that has ended, with what it carried.
type PastCall struct {
	Time time.Time `json:"time"` // when it ended
	CallEvent
	Request *Excerpt `json:"request,omitempty"` // the params as policies and hooks let them pass; nil in a list
	// the result as the caller got it; nil in a list, and of a failed call
	Response *Excerpt `json:"response,omitempty"`
}

// Question is a request that an extension has put to the caller of a call in flight, and that has no answer yet.
type Question struct {
	// what the caller is asked: elicitation/create, sampling/createMessage, roots/list
	Method    string    `json:"method"`
	Since     time.Time `json:"since"`
	Extension string    `json:"extension,omitempty"`
	Tool      string    `json:"tool,omitempty"`    // its registered name; "" for another request
	Caller    string    `json:"caller,omitempty"`  // as the server has authenticated it; "" when anonymous
	Node      string    `json:"node,omitempty"`    // of the cluster, whose caller it is; "" for this host
	Session   string    `json:"session,omitempty"` // "" without a session
	Client    string    `json:"client,omitempty"`  // with its version, as the client states it
}

// Excerpt is the beginning of a payload, with secrets masked.
type Excerpt struct {
	Text  string `json:"text"`          // at most 4 KiB
	Bytes int    `json:"bytes"`         // of the whole payload
	Cut   bool   `json:"cut,omitempty"` // the payload is longer than Text
}

// History counts calls over the last hour, and has samples of the load.
type History struct {
	Step   protocol.Duration `json:"step_ms"` // of one point
	Points []Point           `json:"points"`  // the oldest first; steps without a call and a sample are left out
}

// Point counts the calls that ended in one step of a [History].
type Point struct {
	Time       time.Time `json:"time"` // when the step began
	Calls      int64     `json:"calls"`
	Denied     int64     `json:"denied"`            // of Calls, see [Outcome.IsDenial]
	Errors     int64     `json:"errors"`            // of Calls: any other error, of the caller too
	ToolErrors int64     `json:"tool_errors"`       // of Calls: the tool ran and reports a failure
	Latency    *Latency  `json:"latency,omitempty"` // nil when no call reached an instance
	// of the host and its processes, asked for every 10 s, by an idle host once a minute; 0 without a sample
	Memory int64 `json:"memory_bytes,omitempty"`
	Busy   int64 `json:"in_flight,omitempty"` // calls in flight and queued at the time of that sample
}

// ToolUse is how often a tool was called since the host was opened, and how long instances
// had the calls.
type ToolUse struct {
	Calls      int64    `json:"calls"`
	Denied     int64    `json:"denied"`            // of Calls, see [Outcome.IsDenial]
	Errors     int64    `json:"errors"`            // of Calls: any other error, of the caller too
	ToolErrors int64    `json:"tool_errors"`       // of Calls: the tool ran and reports a failure
	Latency    *Latency `json:"latency,omitempty"` // nil when no call reached an instance
}

// Client is somebody who uses the host over MCP: a session, or a client without sessions
// (of 2026-07-28) that made one of the latest calls.
type Client struct {
	Name    string `json:"name,omitempty"`    // with its version, as the client states it
	Caller  string `json:"caller,omitempty"`  // as the server has authenticated it; "" when anonymous
	Toolset string `json:"toolset,omitempty"` // what its session sees; "" for everything
	// what its session is listed: all tools, or a search in their place; "" without a session
	Tools     string     `json:"tools,omitempty"`
	Session   string     `json:"session,omitempty"`   // "" without a session
	Protocol  string     `json:"protocol"`            // the revision of MCP
	Front     string     `json:"front,omitempty"`     // of a session: http, sse or stdio
	Since     time.Time  `json:"since,omitzero"`      // of a session
	Extension string     `json:"extension,omitempty"` // to which the session is limited; "" for all
	LastCall  *time.Time `json:"last_call,omitempty"` // nil when none of the latest calls is its
}

// NamedClient is a client of server.clients.
type NamedClient struct {
	Name     string     `json:"name"`
	LastUsed *time.Time `json:"last_used,omitempty"` // when it was let in last; nil: not since the host was opened
}

// Load returns the memory of the host and of all its processes, in bytes, and the number of
// calls in flight and queued. Both are 0 in a status that did not ask the operating system.
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

// Processes returns everything that has processes: extensions, destinations and policies. They
// share their instances with s.
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

// SetMemory states the memory of each process by its pid, in bytes.
func (s *Status) SetMemory(byPID map[int]int64) {
	for _, x := range s.Processes() {
		for i := range x.Instances {
			if pid := x.Instances[i].PID; pid > 0 {
				x.Instances[i].RSS = byPID[pid]
			}
		}
	}
}
