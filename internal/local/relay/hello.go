package relay

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"time"
)

// A connection begins with three lines of JSON: the host's greeting, the relay's request and the host's answer.
// After an OK answer the messages follow, or, where the system supports it, pipes for the messages.

// wireVersion changes with the meaning of these lines.
const wireVersion = 1

// maxHello limits a handshake line in bytes; an environment of 1000 variables takes 60 KiB.
const maxHello = 1 << 20

// helloTimeout limits the handshake, except for a strict client's wait for extensions.
var helloTimeout = 10 * time.Second

// greeting is a host's first line.
type greeting struct {
	Wire    int    `json:"wire"`
	Build   string `json:"build"`   // program build, see Build
	Version string `json:"version"` // program version, for people
	PID     int    `json:"pid"`
	Nonce   string `json:"nonce"`             // key of the digests in the request
	Refused string `json:"refused,omitempty"` // why the host refuses the process; it then closes the connection
}

// Verbs of a request.
const (
	verbAttach = "attach" // accept this client
	verbRetire = "retire" // exit with the last client, because a newer program is in use
	verbStop   = "stop"   // exit now
)

// request is a relay's line.
type request struct {
	Verb    string `json:"verb"`
	Caller  string `json:"caller,omitempty"`  // unique client name, for policies
	As      string `json:"as,omitempty"`      // configured client name to use instead; "" for none
	Toolset string `json:"toolset,omitempty"` // requested toolset; "": the host's default
	// tool list mode; "": as configured
	Tools  string `json:"tools,omitempty"`
	Flags  Flags  `json:"flags"`
	Strict bool   `json:"strict,omitempty"` // refuse the client while anything is broken
	// the relay started this host; if the host refuses the client, nobody needs the host
	Started bool              `json:"started,omitempty"`
	Env     map[string]string `json:"env,omitempty"` // digest of each variable, by name
}

// answer is the host's decision about a request.
type answer struct {
	OK      bool   `json:"ok"`
	Refused string `json:"refused,omitempty"` // why this host refuses the client; another host may accept it
	Fault   *Fault `json:"fault,omitempty"`   // why every host would refuse the client
}

// Flags are the flags of exthost serve that must match between client and host.
type Flags struct {
	Config     string   `json:"config,omitempty"`            // absolute path of --config
	Extensions []string `json:"extensions,omitempty"`        // absolute paths of --extensions
	Trust      string   `json:"trust,omitempty"`             // --trust
	NoProject  bool     `json:"no_project_config,omitempty"` // --no-project-config
	Watch      string   `json:"watch,omitempty"`             // --watch; "": any
}

// differ returns the first flag in which a client (f) and a host differ, or "".
func (f Flags) differ(host Flags) string {
	switch {
	case f.Config != host.Config:
		return "--config"
	case !slices.Equal(f.Extensions, host.Extensions):
		return "--extensions"
	case f.Trust != host.Trust:
		return "--trust"
	case f.NoProject != host.NoProject:
		return "--no-project-config"
	case f.Watch != "" && f.Watch != host.Watch:
		return "--watch"
	}
	return ""
}

// Fault is an error with its command line presentation.
type Fault struct {
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"` // next command
	Code int    `json:"code"`           // exit code
}

func (f *Fault) Error() string { return f.Text }

// send writes a handshake line.
func send(conn net.Conn, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := conn.SetWriteDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write(append(data, '\n')); err != nil {
		return err
	}
	return conn.SetWriteDeadline(time.Time{})
}

// receive reads a handshake line. Nothing may follow it, because both sides take turns.
func receive(conn net.Conn, timeout time.Duration, into any) error {
	var deadline time.Time
	if timeout > 0 {
		deadline = time.Now().Add(timeout)
	}
	if err := conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	r := bufio.NewReader(io.LimitReader(conn, maxHello))
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	if r.Buffered() > 0 {
		return errors.New("the other side of the relay does not wait for its turn")
	}
	if err := json.Unmarshal(line, into); err != nil {
		return err
	}
	return conn.SetReadDeadline(time.Time{})
}
