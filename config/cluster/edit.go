package cluster

import (
	"fmt"

	"github.com/exthost/exthost/config/internal/edit"
)

// ByHand is the error for a file in a notation that is not changed automatically. Its fields:
//
//	File  string
//	Lines string // what a person should add to the file
//	Err   error  // the cause
type ByHand = edit.ByHand

// State writes to a configuration file which cluster the host joins, and the hub that runs in the host. It leaves every
// other byte unchanged. The file need not exist, its directory must. The error may be a *[ByHand].
func State(file, join string, h Hub) error {
	unlock, err := edit.Lock(file)
	if err != nil {
		return err
	}
	defer unlock()
	tables := []edit.Table{
		{Path: []string{"cluster"}, Set: []edit.Setting{{Key: "join", Value: edit.Text(join)}}},
		{
			Path: []string{"cluster", "hub"},
			Set:  []edit.Setting{{Key: "listen", Value: edit.Text(h.Listen)}, {Key: "dir", Value: edit.Text(h.Dir)}},
		},
	}
	var byHand *ByHand
	_, _, err = edit.Write(file, func(data []byte) ([]byte, int, error) {
		line := 0
		for _, t := range tables {
			changed, at, err := edit.ApplyTable(file, data, t)
			if err != nil {
				byHand = &ByHand{File: file, Err: err, Lines: tables[0].Lines(file) + tables[1].Lines(file)}
				return nil, 0, err
			}
			data, line = changed, at
		}
		return data, line, nil
	})
	if byHand != nil {
		return byHand
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
