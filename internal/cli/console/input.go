package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

const (
	MaxInput    = 16 << 20 // bounds arguments and calls: no extension takes a longer line
	MaxSettings = 8 << 20  // bounds the settings of other programs
)

// ReadFile reads a file that the user has named, of at most limit bytes. The hint is for
// a file that does not exist.
func ReadFile(path string, limit int, hint string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a FIFO does not wait for a writer
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Code: ExitNotFound, Text: "there is no " + path, Hint: hint}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("%s is over %d MiB", path, limit>>20)
	}
	return data, err
}

// ReadObject reads the JSON object that the flag --data holds; - is stdin and "" an
// empty object.
func (c *Console) ReadObject(data string) (json.RawMessage, error) {
	if data == "-" {
		read, err := io.ReadAll(io.LimitReader(c.In, MaxInput+1))
		if err != nil {
			return nil, err
		}
		if len(read) > MaxInput {
			return nil, Usagef("", "the arguments on stdin are over %d MiB", MaxInput>>20)
		}
		data = string(read)
	}
	if strings.TrimSpace(data) == "" {
		return json.RawMessage("{}"), nil
	}
	raw := json.RawMessage(strings.TrimSpace(data))
	var object map[string]json.RawMessage
	err := json.Unmarshal(raw, &object)
	if err == nil && object == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return nil, Usagef(`exthost call TOOL -d '{"key": "value"}'`, "the arguments are not a JSON object: %v", err)
	}
	return raw, nil
}
