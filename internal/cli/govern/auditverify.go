package govern

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/internal/cli/console"
)

// verification is the result for one log.
type verification struct {
	audit.Report
	Broken string `json:"broken,omitempty"` // the place and kind of the damage
}

func verifyAudit(c *console.Console, paths []string) error {
	list, lines, broken := []verification{}, []string{}, 0
	for _, path := range paths {
		v, line, err := verifyLog(path)
		if err != nil {
			return err
		}
		if v.Broken != "" {
			broken++
		}
		list, lines = append(list, v), append(lines, console.Safe(line))
	}
	if err := c.Print(console.Document{Kind: "audit", Value: list, Names: paths, Text: strings.Join(lines, "\n")}); err != nil {
		return err
	}
	if broken > 0 {
		return console.Reported(console.ExitFailed)
	}
	return nil
}

// verifyLog follows the chain of one log; line is the result for a person.
func verifyLog(path string) (v verification, line string, err error) {
	files, err := audit.Files(path)
	if err != nil {
		return v, "", err
	}
	v.Report, err = audit.Verify(files...)
	if damage, ok := errors.AsType[*audit.Broken](err); ok {
		v.Broken = damage.Error()
		return v, fmt.Sprintf("broken: %s; %d records before it are as they were written", damage, v.Records), nil
	}
	if v.Records == 0 {
		return v, path + ": intact, no records yet", err
	}
	return v, fmt.Sprintf("%s: intact, %d records in %s, up to number %d of %s, hash %s", path, v.Records, console.Plural(len(files), "file"),
		v.Last, v.Until.Local().Format(time.RFC3339), v.Hash), err
}
