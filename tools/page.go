package tools

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/exthost/exthost/protocol"
)

// A page ends at either bound, whichever comes first, but holds one tool at least.
const (
	maxPage      = 1000
	maxPageBytes = 4 << 20
)

// Page returns the MCP descriptors that follow cursor: those of one extension
// under their own names, or for "" all of them under their registered names. The
// first page has cursor "", the last one returns next "". limit is the most
// descriptors a page may hold; 0 and anything above 1,000 mean 1,000, and a page
// also ends before 4 MiB.
//
// Only what visible lets pass is listed; nil lets everything pass.
//
// A cursor is opaque and belongs to one generation and extension; any other is an
// error of kind invalid_arguments, upon which a client starts over.
func (c *Catalog) Page(extension, cursor string, limit int, visible func(*Entry) bool) (tools []json.RawMessage, next string, err error) {
	entries, descriptor := c.entries, func(e *Entry) json.RawMessage { return e.Descriptor }
	if extension != "" {
		entries, descriptor = c.extensions[extension], func(e *Entry) json.RawMessage { return e.Own }
	}
	start, err := c.position(extension, cursor, len(entries))
	if err != nil {
		return nil, "", err
	}
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	tools, size := []json.RawMessage{}, 0
	for i, e := range entries[start:] {
		if visible != nil && !visible(e) {
			continue
		}
		d := descriptor(e)
		if len(tools) == limit || len(tools) > 0 && size+len(d) > maxPageBytes {
			return tools, c.cursor(extension, start+i), nil
		}
		tools, size = append(tools, d), size+len(d)
	}
	return tools, "", nil
}

func (c *Catalog) cursor(extension string, position int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d/%d/%s", c.generation, position, extension))
}

func (c *Catalog) position(extension, cursor string, end int) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	generation, rest, _ := strings.Cut(string(text), "/")
	position, id, _ := strings.Cut(rest, "/")
	n, atoiErr := strconv.Atoi(position)
	if err != nil || atoiErr != nil || n <= 0 || n >= end || id != extension ||
		generation != strconv.FormatUint(c.generation, 10) {
		return 0, protocol.Errorf(protocol.InvalidArguments,
			"the cursor is not of this list, which may have changed meanwhile; list again without a cursor")
	}
	return n, nil
}
