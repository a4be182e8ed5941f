package jsonrpc

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// MaxDepth is the max nesting of objects and arrays in a frame, including the frame itself.
const MaxDepth = rawjson.MaxDepth + 1

// maxMethod is the max length of a method's name in bytes, as written in the frame. It is bounded
// because traces, logs and counts store the names.
const maxMethod = 1 << 10

var (
	errDuplicate    = errors.New("duplicate member")
	errID           = errors.New("id is neither string nor number")
	errMethod       = errors.New("method is not a name of at most 1 KiB")
	errAmbiguous    = errors.New("method beside result or error")
	errNoIDOrMethod = errors.New("neither id nor method")
	errBatch        = errors.New("batches are not supported")
	errNotObject    = errors.New("not a JSON object")
	errNeither      = errors.New("neither result nor error")
	errBoth         = errors.New("both result and error")
	errErrorType    = errors.New("error is not an object")
	errErrorCode    = errors.New("the code of its error is not a whole number")
	errErrorMessage = errors.New("the message of its error is not a string")
	errNoMessage    = errors.New("its error has no message")
	errVersion      = errors.New(`no "jsonrpc":"2.0"`)
)

var null = json.RawMessage("null")

// Bits for the members seen in the envelope.
const (
	seenVersion = 1 << iota
	seenID
	seenMethod
	seenParams
	seenResult
	seenError
)

// Decode checks one frame and returns it as slices of line.
//
// The frame must be one JSON object: valid syntax, valid UTF-8, nested at most [MaxDepth] deep, and
// a method name of at most 1 KiB. The members jsonrpc, id, method, params, result and error are
// read, in exactly this spelling; each may occur once. Other members are ignored. An id is a
// string, a number or null, and is kept as it is spelled.
//
// An error without an id gets the id null. If both result and error are present and one of them is
// null, the null one is ignored.
//
// An unusable answer (both result and error, neither of them, or broken after the id) is returned with Invalid set,
// so that its call can fail. Any other fault is an error: the line is not JSON-RPC.
func Decode(line []byte) (Message, error) {
	d := decoder{line: line, m: Message{Raw: line, Bare: true}}
	err := d.object()
	if err == nil {
		err = d.check()
	}
	if err == nil {
		return d.m, nil
	}
	if d.seen&seenID != 0 && !d.request {
		return Message{ID: d.m.ID, Raw: line, Invalid: err}, nil
	}
	return Message{}, err
}

type decoder struct {
	line []byte
	seen int
	m    Message

	request bool // the frame has a member that only requests may have
}

func (d *decoder) object() error {
	b := d.line
	i := rawjson.SkipSpace(b, 0)
	switch {
	case i >= len(b):
		return rawjson.ErrEnd
	case b[i] == '[':
		return errBatch
	case b[i] != '{':
		return errNotObject
	}
	if i = rawjson.SkipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return d.finish(i)
	}
	for {
		next, err := d.member(i)
		if err != nil {
			return fmt.Errorf("%w at byte %d", err, next)
		}
		if i = rawjson.SkipSpace(b, next); i >= len(b) {
			return rawjson.ErrEnd
		}
		switch b[i] {
		case ',':
			i = rawjson.SkipSpace(b, i+1)
		case '}':
			return d.finish(i)
		default:
			return fmt.Errorf("%w at byte %d", rawjson.ErrSyntax, i)
		}
	}
}

// finish checks that only space follows the closing brace at i.
func (d *decoder) finish(i int) error {
	if i = rawjson.SkipSpace(d.line, i+1); i < len(d.line) {
		return fmt.Errorf("%w at byte %d: more after the object", rawjson.ErrSyntax, i)
	}
	return nil
}

// member reads the key at i and its value and returns the index after both.
func (d *decoder) member(i int) (int, error) {
	keyEnd, err := rawjson.SkipString(d.line, i)
	if err != nil {
		return keyEnd, err
	}
	name := memberOf(d.line[i:keyEnd])
	if name&(seenMethod|seenParams) != 0 {
		d.request = true
	}
	start, err := rawjson.SkipColon(d.line, keyEnd)
	if err != nil {
		return start, err
	}
	end, err := rawjson.SkipValue(d.line, start)
	if err != nil {
		return end, err
	}
	if d.seen&name != 0 { // parsers disagree on which duplicate counts
		if name == seenID {
			d.seen = 0 // the id is ambiguous, so the frame answers no call
		}
		return end, errDuplicate
	}
	d.seen |= name
	return end, d.store(name, d.line[start:end:end])
}

// memberOf returns the bit of the member with this key, or 0.
func memberOf(key []byte) int {
	switch string(rawjson.Unquote(key)) {
	case "jsonrpc":
		return seenVersion
	case "id":
		return seenID
	case "method":
		return seenMethod
	case "params":
		return seenParams
	case "result":
		return seenResult
	case "error":
		return seenError
	}
	return 0
}

func (d *decoder) store(name int, value []byte) error {
	switch name {
	case seenVersion:
		d.m.Bare = string(value) != `"2.0"`
	case seenID:
		if c := value[0]; c == '{' || c == '[' || c == 't' || c == 'f' {
			d.seen = 0
			return errID
		}
		d.m.ID = value
	case seenMethod:
		if value[0] != '"' || len(value) == 2 || len(value) > maxMethod {
			return errMethod
		}
		d.m.Method, _ = rawjson.Text(value)
	case seenParams:
		d.m.Params = value
	case seenResult:
		d.m.Result = value
	case seenError:
		d.m.Error = value
	}
	return nil
}

func (d *decoder) check() error {
	if d.seen&(seenResult|seenError) == seenResult|seenError { // JSON-RPC 1.0 sends both, one of them null
		switch {
		case string(d.m.Error) == "null":
			d.m.Error = nil
			d.seen &^= seenError
		case string(d.m.Result) == "null" && d.m.Error[0] == '{':
			d.m.Result = nil
			d.seen &^= seenResult
		}
	}
	answer := d.seen & (seenResult | seenError)
	switch {
	case d.seen&seenMethod != 0 && answer != 0:
		return errAmbiguous
	case d.seen&seenMethod != 0:
		return nil
	case d.seen&seenID == 0 && answer == seenError: // MCP 2025-11-25 makes the id of an error optional
		d.m.ID = null
	case d.seen&seenID == 0:
		return errNoIDOrMethod
	}
	switch {
	case answer == 0:
		return errNeither
	case answer == seenResult|seenError:
		return errBoth
	case answer == seenError && d.m.Error[0] != '{':
		return errErrorType
	}
	return nil
}
