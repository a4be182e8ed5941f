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

// Each connection begins with three lines of JSON: the host's greeting, the relay's
// request and the host's answer. After an answer that is OK the relay sends the pipes for the
// messages of its client, where the system can do that; else the messages follow.

// wireVersion changes with the meaning of these lines.
const wireVersion = 1

// maxHello bounds a line of the handshake; an environment of 1000 variables takes 60 KiB.
const maxHello = 1 << 20

// helloTimeout bounds the handshake, except the wait for the extensions of a strict client.
var helloTimeout = 10 * time.Second

// greeting is what a host says of itself.
type greeting struct {
	Wire    int    `json:"wire"`
	Build   string `json:"build"`   // of the program; see Build
	Version string `json:"version"` // the same, for people
	PID     int    `json:"pid"`
	Nonce   string `json:"nonce"`             // the key of the digests in the request
	Refused string `json:"refused,omitempty"` // why the other side gets nothing from the host; nothing follows then
}

// The verbs of a request.
const (
	verbAttach = "attach" // take this client
	verbRetire = "retire" // end with the last client: a newer program is in use
	verbStop   = "stop"   // end now
)

// request is what a relay asks for.
type request struct {
	Verb    string `json:"verb"`
	Caller  string `json:"caller,omitempty"`  // unique name of the client, for policies
	As      string `json:"as,omitempty"`      // the named client that it is instead; "": none
	Toolset string `json:"toolset,omitempty"` // of the client; "": that of the host for such clients
	// how tools are listed to the client; "": as the configuration says
	Tools  string `json:"tools,omitempty"`
	Flags  Flags  `json:"flags"`
	Strict bool   `json:"strict,omitempty"` // refuse the client while anything is broken
	// the relay has started the host, which nobody needs if it refuses the client
	Started bool              `json:"started,omitempty"`
	Env     map[string]string `json:"env,omitempty"` // digest of each variable, by name
}

// answer decides about a request.
type answer struct {
	OK      bool   `json:"ok"`
	Refused string `json:"refused,omitempty"` // why this host is not the client's; another one may be
	Fault   *Fault `json:"fault,omitempty"`   // why no host can be the client's
}

// Flags are the flags of exthost serve that select a host.
type Flags struct {
	Config     string   `json:"config,omitempty"`            // absolute path of --config
	Extensions []string `json:"extensions,omitempty"`        // absolute paths of --extensions
	Trust      string   `json:"trust,omitempty"`             // --trust
	NoProject  bool     `json:"no_project_config,omitempty"` // --no-project-config
	Watch      string   `json:"watch,omitempty"`             // --watch; "": the client does not mind
}

// differ returns the flag that keeps a client with the flags f from a host with the flags
// host; "" if there is none.
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

// Fault is an error with what a command line shows of it.
type Fault struct {
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"` // the next command
	Code int    `json:"code"`           // exit code
}

func (f *Fault) Error() string { return f.Text }

// send writes one line of the handshake.
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

// receive reads one line of the handshake. Nothing may follow, because each side waits for
// the other.
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
