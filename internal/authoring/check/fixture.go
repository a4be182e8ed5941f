package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/exthost/exthost/internal/authoring/rawclient"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// fixtureName is the file beside the manifest that lists allowed calls and their expected results.
const fixtureName = "check.json"

// maxFixture is the size of the largest check.json, in bytes.
const maxFixture = 1 << 20

// fixture is the content of a check.json.
type fixture struct {
	Calls []*fixtureCall `json:"calls"`
}

// fixtureCall is one call that probes may make any number of times.
type fixtureCall struct {
	Tool      string          `json:"tool"`      // the tool's own name
	Arguments json.RawMessage `json:"arguments"` // absent: {}

	// Expected result. Absent members are not checked.
	Text       *string         `json:"text"`       // the whole text
	Contains   string          `json:"contains"`   // a part of the text
	Structured json.RawMessage `json:"structured"` // its structured content, compared as JSON
	Error      bool            `json:"error"`      // any error

	// Cancel marks a call that takes minutes: probeCancel cancels it.
	Cancel bool `json:"cancel"`
}

// params returns the params of tools/call.
func (c *fixtureCall) params() json.RawMessage {
	return rawjson.Set(rawjson.Set(nil, "name", rawjson.Quote(c.Tool)), "arguments", c.Arguments)
}

func readFixture(dir string) (f fixture, err error) {
	path := filepath.Join(dir, fixtureName)
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a FIFO would block
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFixture+1))
	switch {
	case err != nil:
		return f, fmt.Errorf("%s: %w", path, err)
	case len(data) > maxFixture:
		return f, invalidFixture(path, fmt.Errorf("it is over %d KiB", maxFixture>>10))
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return f, invalidFixture(path, err)
	}
	for i, c := range f.Calls {
		if c == nil || c.Tool == "" {
			return f, invalidFixture(path, fmt.Errorf("call %d has no tool", i+1))
		}
		if c.Arguments == nil || string(c.Arguments) == "null" {
			c.Arguments = json.RawMessage("{}")
		}
		var compact bytes.Buffer
		_ = json.Compact(&compact, c.Arguments) // the decoder has validated it
		if c.Arguments = compact.Bytes(); c.Arguments[0] != '{' {
			return f, invalidFixture(path,
				fmt.Errorf("the arguments of call %d are %s, and no object", i+1, cut(compact.String())))
		}
	}
	return f, nil
}

func invalidFixture(path string, err error) error {
	return protocol.Errorf(protocol.ManifestInvalid,
		`%s: %w; it is {"calls": [{"tool": …, "arguments": {…}, `+
			`"text" | "contains" | "structured" | "error" | "cancel": …}]}`, path, err)
}

// judge compares the result of the call with the expected one.
func (c *fixtureCall) judge(result protocol.ToolResult, err error) error {
	text := result.Text()
	failed := err != nil || result.IsError()
	if err != nil {
		text = err.Error()
	}
	switch {
	case failed != c.Error && failed:
		return fmt.Errorf("%s fails: %s", c, cut(text))
	case failed != c.Error:
		return fmt.Errorf("%s should fail, and gives %s", c, cut(text))
	case c.Text != nil && *c.Text != text:
		return fmt.Errorf("%s gives %q, not %q", c, cut(text), cut(*c.Text))
	case !bytes.Contains([]byte(text), []byte(c.Contains)):
		return fmt.Errorf("%s gives %q, in which there is no %q", c, cut(text), c.Contains)
	case c.Structured != nil && !rawjson.Equal(c.Structured, result.Structured()):
		return fmt.Errorf("%s gives the structured content %s, not %s", c, cut(string(result.Structured())),
			cut(string(c.Structured)))
	}
	return nil
}

// String returns the tool and its arguments.
func (c *fixtureCall) String() string { return c.Tool + " " + cut(string(c.Arguments)) }

func cut(s string) string { return display.CutWords(s, rawclient.MaxQuote) }
