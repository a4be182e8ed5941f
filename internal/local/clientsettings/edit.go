package clientsettings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

type Server struct {
	Name string
	Argv []string // program and arguments; nil if the client starts no process for it
	Line int      // 1-based
}

// Invalid is returned for a text that its client cannot parse either. Line and Column are 1-based, 0 if unknown.
type Invalid struct {
	Line, Column int
	Message      string
}

func (e *Invalid) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// errByHand is returned for a valid text whose form cannot be edited.
var errByHand = errors.New("its servers are written in a way that is not changed automatically; change them by hand")

// settings is a parsed settings file.
type settings interface {
	list() ([]Server, error)
	put(name string, argv []string, env map[string]string) error
	remove(name string, table bool) error
	bytes() []byte
}

var mark = []byte("\xef\xbb\xbf") // byte order mark, written by Windows programs

// read validates and parses data.
func (c *Client) read(data []byte) (settings, error) {
	body := bytes.TrimPrefix(data, mark)
	if !utf8.Valid(body) {
		return nil, &Invalid{Message: "it is not UTF-8"}
	}
	if err := Bounds(body, c.TOML()); err != nil {
		return nil, &Invalid{Message: err.Error()}
	}
	if c.TOML() {
		return c.readTOML(body)
	}
	return c.readJSON(body)
}

// List returns the servers in a file, in order.
func (c *Client) List(data []byte) ([]Server, error) {
	t, err := c.read(data)
	if err != nil {
		return nil, err
	}
	return t.list()
}

// HasTable reports whether a file has a table of servers.
func (c *Client) HasTable(data []byte) (bool, error) {
	root, err := c.decode(bytes.TrimPrefix(data, mark))
	return root[c.Key] != nil, err
}

// Put returns data with the server: appended, or with a new command line. env is written only for a new server.
func (c *Client) Put(data []byte, name string, argv []string, env map[string]string) ([]byte, error) {
	return c.edit(data, name, argv, func(t settings) error { return t.put(name, argv, env) })
}

// Remove returns data without the server. With table, an empty table of servers is removed too.
func (c *Client) Remove(data []byte, name string, table bool) ([]byte, error) {
	return c.edit(data, name, nil, func(t settings) error { return t.remove(name, table) })
}

func (c *Client) edit(data []byte, name string, argv []string, change func(settings) error) ([]byte, error) {
	t, err := c.read(data)
	if err != nil {
		return nil, err
	}
	if err := change(t); err != nil {
		return nil, err
	}
	changed := t.bytes()
	if bytes.HasPrefix(data, mark) {
		changed = append(mark[:len(mark):len(mark)], changed...)
	}
	return changed, c.verify(data, changed, name, argv)
}

// verify checks that after contains the server with argv (or, if nil, does not contain it), and is otherwise
// equal to before.
func (c *Client) verify(before, after []byte, name string, argv []string) error {
	old, _, err := c.without(before, name)
	if err != nil {
		return err
	}
	rest, server, err := c.without(after, name)
	if err != nil || !reflect.DeepEqual(old, rest) || !reflect.DeepEqual(argv, c.argv(server)) {
		return errByHand
	}
	return nil
}

// without decodes a text and removes the server, and also the table of servers if it is empty then.
func (c *Client) without(data []byte, name string) (rest, server map[string]any, err error) {
	if rest, err = c.decode(bytes.TrimPrefix(data, mark)); err != nil {
		return nil, nil, err
	}
	servers, _ := rest[c.Key].(map[string]any)
	server, _ = servers[name].(map[string]any)
	delete(servers, name)
	if len(servers) == 0 {
		delete(rest, c.Key)
	}
	if len(rest) == 0 {
		rest = nil
	}
	return rest, server, nil
}

func (c *Client) decode(body []byte) (root map[string]any, err error) {
	switch {
	case c.TOML():
		err = toml.Unmarshal(body, &root)
	case len(bytes.TrimSpace(body)) > 0:
		return decodeJSON(body)
	}
	return root, err
}

func decodeJSON(data []byte) (root map[string]any, err error) {
	plain, err := Standardize(data)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	d.UseNumber() // compares numbers as written
	err = d.Decode(&root)
	return root, err
}

// argv returns the command line of a decoded server, or nil.
func (c *Client) argv(server map[string]any) (argv []string) {
	list, _ := server["args"].([]any)
	if c.Joined {
		list, _ = server["command"].([]any)
	} else if program, ok := server["command"].(string); ok {
		list = append([]any{program}, list...)
	} else {
		return nil
	}
	for _, item := range list {
		word, ok := item.(string)
		if !ok {
			return nil
		}
		argv = append(argv, word)
	}
	return argv
}
