// Package cassette is the file format of recordings: one JSON object per line.
//
// The first line is the [Header]. Each further line is a [Record]: the start of an extension's run, its
// descriptors, a frame in either direction, the end of the run, and finally the end of the recording, which is
// missing if the recording was cut off.
package cassette

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Version is the version of the format.
const Version = 1

// Size limits of a cassette, in bytes.
const (
	MinSize = 512      // smallest limit of a writer: room for the header and the end
	MaxLine = 64 << 20 // one line, without its line break
	MaxSize = 1 << 30  // whole file, unless the writer sets another limit
)

// Header is the first line.
type Header struct {
	Version int       `json:"cassette"` // format version, see [Version]
	Host    string    `json:"host"`     // version of the host that recorded
	Begun   time.Time `json:"begun"`
}

// Kind names the payload of a record.
type Kind string

// The kinds of records, with their payloads.
const (
	KindStart    Kind = "start"    // start of a run: a [Start]
	KindOffer    Kind = "offer"    // descriptors after the handshake and after each change of the tools: an [Offer]
	KindSent     Kind = "sent"     // frame from the host
	KindReceived Kind = "received" // frame from the extension
	KindNoise    Kind = "noise"    // line from the extension that is not a frame: a string
	KindEnd      Kind = "end"      // end of a run: an [End]
	KindOmitted  Kind = "omitted"  // frame over [MaxLine]: its length
	KindClosed   Kind = "closed"   // end of the recording: a [Closed]; belongs to no run
)

var kinds = map[string]Kind{}

func init() {
	for _, k := range []Kind{
		KindStart,
		KindOffer,
		KindSent,
		KindReceived,
		KindNoise,
		KindEnd,
		KindOmitted,
		KindClosed,
	} {
		kinds[string(k)] = k
	}
}

// Record is one line after the first.
type Record struct {
	At      time.Duration   // since the start of the recording, in whole microseconds
	Run     int             // number of the run, counted from 1; 0 for KindClosed
	Kind    Kind            // type of Payload
	Of      json.RawMessage // id of the request on whose stream a frame arrived; nil without one
	Payload json.RawMessage
}

// Append appends r and a line break to dst. Line breaks between the values of a payload are removed.
func Append(dst []byte, r *Record) ([]byte, error) {
	payload, err := line(r.Payload)
	if err != nil {
		return dst, err
	}
	dst = strconv.AppendInt(append(dst, `{"at":`...), r.At.Microseconds(), 10)
	if r.Run > 0 {
		dst = strconv.AppendInt(append(dst, `,"run":`...), int64(r.Run), 10)
	}
	if r.Of != nil {
		dst = append(append(dst, `,"of":`...), r.Of...)
	}
	dst = append(append(append(dst, `,"`...), r.Kind...), `":`...)
	return append(append(dst, payload...), "}\n"...), nil
}

// line returns JSON without line breaks between its values.
func line(payload json.RawMessage) (json.RawMessage, error) {
	if rawjson.IsObject(payload) {
		return rawjson.Object(payload)
	}
	return payload, rawjson.Check(payload)
}

// check validates a line. A payload may use the full nesting depth of rawjson, and the line adds one level to it.
func check(line []byte) error {
	err := rawjson.Check(line)
	if !errors.Is(err, rawjson.ErrDepth) {
		return err
	}
	var last json.RawMessage
	rawjson.Each(line, func(_ []byte, value json.RawMessage) bool { last = value; return true })
	at := len(line) - len("}") - len(last)
	if at < 0 || rawjson.Check(last) != nil {
		return err
	}
	return rawjson.Check(append(bytes.Clone(line[:at]), "0}"...))
}

// parse reads a line without its line break. The record aliases line.
func parse(line []byte) (r Record, err error) {
	if err := check(line); err != nil {
		return r, err
	}
	if !rawjson.IsObject(line) {
		return r, rawjson.ErrObject
	}
	at := int64(-1)
	rawjson.Each(line, func(key []byte, value json.RawMessage) bool {
		switch string(key) {
		case "at":
			if json.Unmarshal(value, &at) != nil || at < 0 {
				err = errors.New("at is no number of microseconds")
			}
		case "run":
			if json.Unmarshal(value, &r.Run) != nil || r.Run < 1 {
				err = errors.New("run is no number from 1 on")
			}
		case "of":
			r.Of = value
		default:
			if kind, ok := kinds[string(key)]; ok && r.Kind != "" {
				err = fmt.Errorf("it has both %s and %s", r.Kind, kind)
			} else if ok {
				r.Kind, r.Payload = kind, value
			}
		}
		return err == nil
	})
	const latest = int64(1 << 53)
	switch {
	case err != nil:
	case at < 0 || at > latest:
		err = errors.New("it lacks at, the time")
	case r.Kind == "":
		err = errors.New("it has no payload that this version knows")
	case r.Run == 0 && r.Kind != KindClosed:
		err = errors.New("it lacks run, the run that it belongs to")
	case (r.Kind == KindSent || r.Kind == KindReceived) && !rawjson.IsObject(r.Payload):
		err = fmt.Errorf("%s is no frame", r.Kind)
	}
	r.At = time.Duration(min(at, latest/int64(time.Microsecond))) * time.Microsecond
	return r, err
}

// Start is the start of a run. If a run started before the recording, its start is recorded when the recording begins.
type Start struct {
	Extension string `json:"extension"` // extension id
	Transport string `json:"transport"` // transport kind
	Protocol  string `json:"protocol"`  // native, mcp or lite
	PID       int    `json:"pid,omitempty"`
}

// Offer holds the descriptors of an extension. Raw JSON is as the extension sent it.
type Offer struct {
	Protocol      string            // native, mcp or lite
	Version       string            // MCP revision; "" for other protocols
	ServerVersion string            // "" if unknown
	ServerInfo    json.RawMessage   // nil if absent
	Capabilities  json.RawMessage   // nil if absent
	Instructions  string            // MCP servers only
	Tools         []json.RawMessage // descriptors
	Hooks         []string
	ToolsByMethod map[string]string // lite extensions only: tool by frame method
}

// Encode returns o as a payload.
func (o *Offer) Encode() json.RawMessage {
	b := rawjson.AppendText([]byte(`{"protocol":`), o.Protocol)
	text := func(name, value string) {
		if value != "" {
			b = rawjson.AppendText(append(append(append(b, `,"`...), name...), `":`...), value)
		}
	}
	raw := func(name string, value json.RawMessage) {
		if value != nil {
			b = append(append(append(append(b, `,"`...), name...), `":`...), value...)
		}
	}
	text("version", o.Version)
	text("server_version", o.ServerVersion)
	raw("server_info", o.ServerInfo)
	raw("capabilities", o.Capabilities)
	text("instructions", o.Instructions)
	raw("tools", rawjson.AppendList(nil, o.Tools))
	if len(o.Hooks) > 0 {
		hooks, _ := json.Marshal(o.Hooks) // strings always encode
		raw("hooks", hooks)
	}
	if len(o.ToolsByMethod) > 0 {
		methods, _ := json.Marshal(o.ToolsByMethod) // strings always encode
		raw("tools_by_method", methods)
	}
	return append(b, '}')
}

// DecodeOffer reads the payload of KindOffer.
func DecodeOffer(payload json.RawMessage) (*Offer, error) {
	var o struct {
		Protocol, Version, Instructions string
		ServerVersion                   string          `json:"server_version"`
		ServerInfo                      json.RawMessage `json:"server_info"`
		Capabilities                    json.RawMessage
		Tools                           []json.RawMessage
		Hooks                           []string
		ToolsByMethod                   map[string]string `json:"tools_by_method"`
	}
	err := json.Unmarshal(payload, &o)
	return &Offer{
		Protocol:      o.Protocol,
		Version:       o.Version,
		ServerVersion: o.ServerVersion,
		ServerInfo:    o.ServerInfo,
		Capabilities:  o.Capabilities,
		Instructions:  o.Instructions,
		Tools:         o.Tools,
		Hooks:         o.Hooks,
		ToolsByMethod: o.ToolsByMethod,
	}, err
}

// End is the end of a run.
type End struct {
	Kind     protocol.Kind      `json:"kind,omitempty"` // "" if the host stopped the run
	Message  string             `json:"message,omitempty"`
	Evidence *protocol.Evidence `json:"evidence,omitempty"` // what is known of the process's exit
}

// Closed is the end of a recording.
type Closed struct {
	Reason  string `json:"reason"`
	Records int    `json:"records"`
}

// Encode returns a [Start], an [End] or a [Closed] as a payload.
func Encode(v any) json.RawMessage {
	payload, _ := json.Marshal(v) // strings and numbers always encode
	return payload
}
