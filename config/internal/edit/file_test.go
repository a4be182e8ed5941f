package edit

import (
	"errors"
	"strings"
	"testing"

	"github.com/exthost/exthost/protocol"
)

// A file that cannot be read or written says nothing about the configuration.
func TestWriteTellsFailuresOfTheFileSystem(t *testing.T) {
	dir := t.TempDir() // a directory cannot be read as a file, not even by root
	_, _, err := Write(dir, func(data []byte) ([]byte, int, error) { return data, 0, nil })
	if err == nil || protocol.KindOf(err) != "" || !strings.HasPrefix(err.Error(), dir+": ") {
		t.Errorf("a failed system call: %v", err)
	}
	_, _, err = Write(dir+"/new.yaml", func([]byte) ([]byte, int, error) { return nil, 0, errors.New("by hand") })
	if protocol.KindOf(err) != protocol.ConfigInvalid {
		t.Errorf("a refused edit: %v", err)
	}
}
