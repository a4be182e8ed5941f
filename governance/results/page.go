package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// ToolName is the name of the page tool.
const ToolName = "exthost_result_page"

// Bounds of a page, in bytes.
const (
	DefaultPage = 16 << 10
	MaxPage     = 64 << 10
)

// Tool returns the descriptor of the page tool.
func Tool() protocol.Tool {
	t := protocol.Tool{
		Name:  ToolName,
		Title: "Read on in a long result",
		Description: "Returns a part of a tool result that was too long to return at once. Use it with the handle " +
			"and the offset that the shortened result states.",
		InputSchema: fmt.Appendf(nil,
			`{"type":"object","properties":{"handle":{"type":"string","description":"from the shortened result"},`+
				`"offset":{"type":"integer","minimum":0,"default":0,"description":"where to begin, in bytes"},`+
				`"limit":{"type":"integer","minimum":1,"maximum":%d,"default":%d,`+
				`"description":"how much to return at most, in bytes"}},`+
				`"required":["handle"],"additionalProperties":false}`, MaxPage, DefaultPage),
		Annotations: json.RawMessage(`{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}`),
	}
	t.Raw, _ = json.Marshal(struct { // strings and valid JSON always encode
		Name        string          `json:"name"`
		Title       string          `json:"title"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
		Annotations json.RawMessage `json:"annotations"`
	}{t.Name, t.Title, t.Description, t.InputSchema, t.Annotations})
	return t
}

// Call executes the page tool and returns an MCP tool result: the text of the page and its
// position. Bad arguments are an error of kind invalid_arguments. A result for
// whose source shows returns false is treated as unknown; if shows is nil, none is.
func (s *Store) Call(owner Owner, shows func(Source) bool, arguments json.RawMessage) (json.RawMessage, error) {
	a := struct {
		Handle string `json:"handle"`
		Offset int64  `json:"offset"`
		Limit  int    `json:"limit"`
	}{Limit: DefaultPage}
	dec := json.NewDecoder(bytes.NewReader(arguments))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		return nil, refuse("the arguments are not as the tool's schema says: %w", err)
	}
	if a.Limit < 1 || a.Limit > MaxPage {
		return nil, refuse("the limit is %d; it can be 1 to %d", a.Limit, MaxPage)
	}
	if shows != nil && !shows(s.Source(a.Handle)) {
		return nil, refuse("%w", ErrUnknown)
	}
	p, err := s.Page(owner, a.Handle, a.Offset, a.Limit)
	if err != nil {
		return nil, refuse("%w", err)
	}
	position := fmt.Sprintf("[bytes %d to %d of %d; this is the end]", p.Offset, p.Offset+int64(len(p.Text)), p.Total)
	if p.Next > 0 {
		position = fmt.Sprintf("[bytes %d to %d of %d; go on with offset %d]", p.Offset, p.Next, p.Total, p.Next)
	}
	out := rawjson.AppendText([]byte(`{"content":[{"type":"text","text":`), p.Text)
	out = rawjson.AppendText(append(out, `},{"type":"text","text":`...), position)
	return append(out, `}]}`...), nil
}

func refuse(format string, args ...any) error {
	err := protocol.Errorf(protocol.InvalidArguments, format, args...)
	err.Tool = ToolName
	return err
}

func readPage(r io.ReaderAt, offset int64, limit int, total int64) (Page, error) {
	// Read some bytes more on both sides, so that the page begins and ends between
	// characters.
	back := min(offset, utf8.UTFMax-1)
	buf := make([]byte, back+int64(limit)+utf8.UTFMax)
	n, err := r.ReadAt(buf, offset-back)
	if err != nil && err != io.EOF {
		return Page{}, err
	}
	buf = buf[:n]
	start := min(int(back), n)
	for start > 0 && start < n && !utf8.RuneStart(buf[start]) {
		start--
	}
	text := buf[start:]
	p := Page{Offset: offset - back + int64(start), Total: total}
	p.Text = string(text[:Cut(text, limit)])
	if next := p.Offset + int64(len(p.Text)); next < total {
		p.Next = next
	}
	return p, nil
}

// Cut returns the length of the first page of text: all of text if that is at most limit bytes.
// Otherwise the page ends with the last line that ends in the second half of limit, else with the
// last whole character. It holds at least one character.
func Cut(text []byte, limit int) int {
	if len(text) <= limit {
		return len(text)
	}
	if line := bytes.LastIndexByte(text[limit/2:limit], '\n'); line >= 0 {
		return limit/2 + line + 1
	}
	for i := limit; i > 0; i-- {
		if utf8.RuneStart(text[i]) {
			return i
		}
	}
	_, size := utf8.DecodeRune(text)
	return size
}
