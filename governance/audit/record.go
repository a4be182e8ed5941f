package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Kind is the subject of a record.
type Kind string

// The kinds of records.
const (
	KindExchange  Kind = ""          // an exchange
	KindIntent    Kind = "intent"    // a request that every policy allowed and that is about to be sent
	KindHead      Kind = "head"      // the first record of a file
	KindRecovered Kind = "recovered" // a torn line was removed from the end of the file
	KindLost      Kind = "lost"      // records before this one could not be written
)

// MethodAnswer is the method of a record about an answer to an approval request that did not count.
const MethodAnswer = "exthost/approvals/answer"

// Outcome is the result of an exchange.
type Outcome string

// The outcomes.
const (
	OK        Outcome = "ok"         // the extension answered, or accepted the notification
	ToolError Outcome = "tool_error" // the tool's result is an error
	Answered  Outcome = "answered"   // a policy answered instead of the extension
	Denied    Outcome = "denied"     // a policy or hook denied it, or a required policy could not decide
	Failed    Outcome = "failed"     // any other error
)

// The outcomes of intents without a record of the exchange. No line holds them; [Read] and
// [Verify] derive them.
const (
	Pending Outcome = "pending" // it is in flight: a host writes the log
	Lost    Outcome = "lost"    // it was in flight when its host ended
)

// Record is one line of the log. The log sets Seq, Prev, Opened and Hash.
type Record struct {
	Seq  uint64 `json:"seq,omitempty"`  // number of the record, from 1 on, continued from file to file
	Prev string `json:"prev,omitempty"` // the hash of the record before; "" in the first record

	Time       time.Time `json:"time"` // when the exchange began
	Kind       Kind      `json:"kind,omitempty"`
	ID         string    `json:"id,omitempty"` // of the decision
	Caller     string    `json:"caller,omitempty"`
	Session    string    `json:"session,omitempty"`
	Node       string    `json:"node,omitempty"`   // the cluster node of the caller; "" for this host
	Origin     string    `json:"origin,omitempty"` // the decision id in the log of Node
	Extension  string    `json:"extension,omitempty"`
	Tool       string    `json:"tool,omitempty"`
	Method     string    `json:"method,omitempty"`
	Direction  string    `json:"direction,omitempty"` // to_extension or to_caller
	Notify     bool      `json:"notify,omitempty"`
	Outcome    Outcome   `json:"outcome,omitempty"`
	Policy     string    `json:"policy,omitempty"`      // the policy that determined the outcome
	Code       string    `json:"code,omitempty"`        // of the decision
	ApprovedBy string    `json:"approved_by,omitempty"` // the person who answered a policy's approval request
	AnsweredIn string    `json:"answered_in,omitempty"` // where: operator or client
	// from the question to the answer
	AnsweredAfter float64 `json:"answered_after_ms,omitempty"`
	Failure       string  `json:"failure,omitempty"` // the kind of error
	Error         string  `json:"error,omitempty"`   // the message of the error, masked and truncated
	Replayed      bool    `json:"replayed,omitempty"`
	Duration      float64 `json:"duration_ms,omitempty"`
	Request       Payload `json:"request,omitzero"`
	Response      Payload `json:"response,omitzero"`

	Lost  int    `json:"lost,omitempty"`  // KindLost: the number of lost records
	Torn  string `json:"torn,omitempty"`  // KindRecovered: the removed bytes, truncated
	After string `json:"after,omitempty"` // KindHead: the name of the previous file at the time

	Opened bool `json:"opened,omitempty"` // the first record of a host: intents before it without an outcome are lost

	Hash string `json:"hash,omitempty"` // SHA-256 of the line before this member
}

// EndsCall reports whether r says how its exchange ended. A refused answer of a client does not: the call still waits
// for the operator.
func (r *Record) EndsCall() bool { return endsCall(r.Kind, r.Method) }

func endsCall(k Kind, method string) bool { return k == KindExchange && method != MethodAnswer }

// Payload is a request or response: a digest of the bytes, and a copy with secrets and
// personal data masked.
type Payload struct {
	Bytes  int             `json:"bytes"`
	SHA256 string          `json:"sha256"`         // of the unmasked bytes
	JSON   json.RawMessage `json:"json,omitempty"` // the whole copy
	Cut    string          `json:"cut,omitempty"`  // in place of JSON: the beginning of a copy longer than 2 KiB
}

const (
	maxCopy  = 2 << 10 // bytes of a payload's copy
	maxName  = 256     // bytes of a name that callers choose
	maxError = 512     // bytes of an error's message
)

// newIntent returns the record of x before its request is sent.
func (l *Log) newIntent(ctx context.Context, x *governance.Exchange) (Record, error) {
	r := recordOf(x)
	r.Kind = KindIntent
	var err error
	r.Request, err = l.newPayload(ctx, x.Request)
	return r, err
}

// recordOf returns a record with the members that intents and outcomes have in common.
func recordOf(x *governance.Exchange) Record {
	r := Record{
		Time:       x.Began.UTC(),
		ID:         x.ID,
		Caller:     display.Prefix(x.Caller, maxName),
		Session:    display.Prefix(x.Session, maxName),
		Node:       x.Node,
		Origin:     display.Prefix(x.Origin, maxName),
		Extension:  x.Extension,
		Tool:       display.Prefix(x.Tool, maxName),
		Method:     display.Prefix(x.Method, maxName),
		Direction:  x.Direction(),
		Notify:     x.Notify,
		ApprovedBy: x.Verdict.By,
		AnsweredIn: string(x.Verdict.Where),
	}
	r.AnsweredAfter = float64(time.Duration(x.Verdict.After).Microseconds()) / 1e3
	if x.Began.IsZero() {
		r.Time = time.Now().UTC()
	}
	return r
}

// newRecord returns the record of x, which has ended. i is the request from before it was sent, or the zero intent.
func (l *Log) newRecord(ctx context.Context, x *governance.Exchange, i intent) (Record, error) {
	r := recordOf(x)
	r.Outcome, r.Policy, r.Code, r.Replayed = outcome(x), x.Verdict.Policy, x.Verdict.Code, x.Replayed
	if !x.Began.IsZero() {
		r.Duration = float64(time.Since(x.Began).Microseconds()) / 1e3
	}
	if x.Failure != nil {
		r.Failure = string(x.Failure.Kind)
		r.Error = display.Prefix(l.secrets.Text(x.Failure.Message, maxError), maxError)
	}
	var err error
	if r.Request, err = l.payloadAgain(ctx, i, x.Request); err == nil {
		r.Response, err = l.newPayload(ctx, x.Response)
	}
	return r, err
}

// payloadAgain returns the payload of i if it was made of raw, else a new payload of raw. That avoids hashing and
// masking twice.
func (l *Log) payloadAgain(ctx context.Context, i intent, raw json.RawMessage) (Payload, error) {
	if i.SHA256 != "" && bytes.Equal(i.raw, raw) {
		return i.Payload, nil
	}
	return l.newPayload(ctx, raw)
}

// digest returns the SHA-256 of raw in hexadecimal.
func digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	var text [2 * sha256.Size]byte // on the stack, other than that of hex.EncodeToString
	hex.Encode(text[:], sum[:])
	return string(text[:])
}

func outcome(x *governance.Exchange) Outcome {
	switch {
	case x.Failure != nil && (x.Failure.Kind == protocol.Rejected || x.Failure.Kind == protocol.GovernanceUnavailable):
		return Denied
	case x.Failure != nil:
		return Failed
	case x.Verdict.Action == governance.Respond:
		return Answered
	case x.ReturnsTool() && protocol.ToolResult(x.Response).IsError():
		return ToolError
	}
	return OK
}

func (l *Log) newPayload(ctx context.Context, raw json.RawMessage) (p Payload, err error) {
	if raw == nil {
		return p, nil
	}
	p.Bytes, p.SHA256 = len(raw), digest(raw)
	masked, err := l.secrets.JSON(ctx, raw, 2*maxCopy) // masks may be longer than what they hide
	if len(raw) <= maxCopy && rawjson.Check(masked) == nil {
		p.JSON = oneLine(masked)
	} else {
		p.Cut = display.Prefix(string(masked), maxCopy)
	}
	return p, err
}

func oneLine(raw []byte) []byte {
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw
	}
	var b bytes.Buffer
	_ = json.Compact(&b, raw) // raw is valid JSON
	return b.Bytes()
}

// append appends r as encoding/json would, except for the order: request and response come
// last, and are copied because they are known to be JSON on one line. It omits Seq, Prev
// and Hash.
func (r *Record) append(dst []byte) []byte {
	dst = r.Time.AppendFormat(append(dst, `{"time":"`...), time.RFC3339Nano)
	dst = append(dst, '"')
	dst = appendText(dst, "kind", string(r.Kind))
	dst = appendText(dst, "id", r.ID)
	dst = appendText(dst, "caller", r.Caller)
	dst = appendText(dst, "session", r.Session)
	dst = appendText(dst, "node", r.Node)
	dst = appendText(dst, "origin", r.Origin)
	dst = appendText(dst, "extension", r.Extension)
	dst = appendText(dst, "tool", r.Tool)
	dst = appendText(dst, "method", r.Method)
	dst = appendText(dst, "direction", r.Direction)
	dst = appendTrue(dst, "notify", r.Notify)
	dst = appendText(dst, "outcome", string(r.Outcome))
	dst = appendText(dst, "policy", r.Policy)
	dst = appendText(dst, "code", r.Code)
	dst = appendText(dst, "approved_by", r.ApprovedBy)
	dst = appendText(dst, "answered_in", r.AnsweredIn)
	dst = appendNumber(dst, "answered_after_ms", r.AnsweredAfter)
	dst = appendText(dst, "failure", r.Failure)
	dst = appendText(dst, "error", r.Error)
	dst = appendTrue(dst, "replayed", r.Replayed)
	dst = appendNumber(dst, "duration_ms", r.Duration)
	if r.Lost != 0 {
		dst = strconv.AppendInt(appendKey(dst, "lost"), int64(r.Lost), 10)
	}
	dst = appendText(dst, "torn", r.Torn)
	dst = appendText(dst, "after", r.After)
	dst = appendTrue(dst, "opened", r.Opened)
	dst = r.Request.append(dst, "request")
	dst = r.Response.append(dst, "response")
	return append(dst, '}')
}

func appendKey(dst []byte, name string) []byte {
	return append(append(append(dst, `,"`...), name...), `":`...)
}

func appendText(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	return rawjson.AppendText(appendKey(dst, name), text)
}

func appendNumber(dst []byte, name string, n float64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendFloat(appendKey(dst, name), n, 'f', -1, 64)
}

func appendTrue(dst []byte, name string, is bool) []byte {
	if !is {
		return dst
	}
	return append(appendKey(dst, name), "true"...)
}

func (p *Payload) append(dst []byte, name string) []byte {
	if p.SHA256 == "" {
		return dst
	}
	dst = append(appendKey(dst, name), `{"bytes":`...)
	dst = strconv.AppendInt(dst, int64(p.Bytes), 10)
	dst = appendText(dst, "sha256", p.SHA256)
	if p.JSON != nil {
		dst = append(appendKey(dst, "json"), p.JSON...)
	}
	dst = appendText(dst, "cut", p.Cut)
	return append(dst, '}')
}

// The end of each line.
const (
	hashKey  = `,"hash":"`
	hashTail = len(hashKey) + 2*sha256.Size + len(`"}`)
)

// seal appends the line of a record, given as JSON without seq, prev and hash, and returns
// its hash.
func seal(dst, record []byte, seq uint64, prev string) (line []byte, hash string) {
	start := len(dst)
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendUint(dst, seq, 10)
	if prev != "" {
		dst = append(append(append(dst, `,"prev":"`...), prev...), '"')
	}
	dst = append(append(dst, ','), record[1:len(record)-1]...)
	hash = digest(dst[start:])
	return append(append(append(dst, hashKey...), hash...), "\"}\n"...), hash
}

// link holds the members that chain a line to the one before it, and those that pair intents
// with outcomes.
type link struct {
	Seq      uint64    `json:"seq"`
	Prev     string    `json:"prev"`
	Time     time.Time `json:"time"`
	Hash     string    `json:"hash"`
	Kind     Kind      `json:"kind"`
	Method   string    `json:"method"`
	ID       string    `json:"id"`
	Duration float64   `json:"duration_ms"`
	Opened   bool      `json:"opened"`
}

// parseLink reads the link of a line without its newline. ok is false when the hash does
// not match.
func parseLink(line []byte) (l link, ok bool) {
	if len(line) < hashTail || json.Unmarshal(line, &l) != nil {
		return l, false
	}
	body := line[:len(line)-hashTail]
	hash := digest(body)
	return l, l.Hash == hash && string(line[len(body):]) == hashKey+hash+`"}`
}
