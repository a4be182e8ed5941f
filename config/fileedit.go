package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost/config/internal/edit"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/protocol"
)

// ByHand is the error for a file in a notation that is not changed automatically. Its fields:
//
//	File  string
//	Lines string // what a person should write in place of what was to be edited; "": remove it
//	Err   error  // the cause
type ByHand = edit.ByHand

// Digest returns the digest of a configuration file for [ClientEdit] and [ToolsetEdit]. A file that does not exist has
// that of an empty one.
func Digest(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", protocol.Errorf(protocol.ConfigInvalid, "%w", err)
	}
	return digest(data), nil
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// plannedEdit is an edit that makeEdit has yet to make.
type plannedEdit struct {
	file  string
	apply func(data []byte) (changed []byte, line int, err error)
	lines func(file string) string // what a person should write; nil: nothing
}

// makeEdit makes the edit that plan returns. It fails if the digest of the file is not wanted, unless wanted is "".
func makeEdit(wanted string, plan func() (plannedEdit, error)) (Edited, error) {
	p, err := plan()
	if err != nil {
		return Edited{}, err
	}
	if err := os.MkdirAll(filepath.Dir(p.file), 0o700); err != nil {
		return Edited{}, err
	}
	unlock, err := edit.Lock(p.file)
	if err != nil {
		return Edited{}, err
	}
	defer unlock()
	if p, err = plan(); err != nil { // again under the lock: another program may have changed the file
		return Edited{}, err
	}
	var byHand *ByHand
	changed := true
	line, created, err := edit.Write(p.file, func(data []byte) ([]byte, int, error) {
		if wanted != "" && wanted != digest(data) {
			return nil, 0, errors.New("it has changed since it was shown, and was left as it is; look at it again")
		}
		next, line, err := p.apply(data)
		if err != nil {
			byHand = &ByHand{File: p.file, Err: err}
		}
		changed = !bytes.Equal(next, data)
		return next, line, err
	})
	if byHand != nil {
		if p.lines != nil {
			byHand.Lines = p.lines(p.file)
		}
		return Edited{}, byHand
	}
	return Edited{File: p.file, Line: line, Changed: err == nil && changed, Created: created}, err
}

// Misfit says why the host does not take the value of one field of an edit. Its fields:
//
//	Field      string // such as include
//	Value      string // such as a pattern; "": the message has it
//	Message    string
//	Suggestion string // the value that may be meant; "": none is similar
type Misfit = toolset.Misfit

// misfits is the data of the error for fields of an edit.
type misfits struct {
	Misfits []Misfit `json:"misfits"`
}

// MisfitsOf returns the fields that an error of an edit is about; nil: it is about no field.
func MisfitsOf(err error) []Misfit {
	var m misfits
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		_ = json.Unmarshal(e.Data, &m) // other data is about no field
	}
	return m.Misfits
}

// NewMisfits returns the error for fields of an edit, which is about these fields by [MisfitsOf].
func NewMisfits(kind protocol.Kind, list ...Misfit) error {
	messages := make([]string, len(list))
	for i, m := range list {
		if messages[i] = m.Message; m.Suggestion != "" {
			messages[i] += fmt.Sprintf(", did you mean %q?", m.Suggestion)
		}
	}
	e := protocol.Errorf(kind, "%s", strings.Join(messages, "; "))
	e.Data, _ = json.Marshal(misfits{list}) // always encodes
	return e
}

// misfit is [NewMisfits] for one field.
func misfit(kind protocol.Kind, field, suggestion, message string) error {
	return NewMisfits(kind, Misfit{Field: field, Message: message, Suggestion: suggestion})
}
