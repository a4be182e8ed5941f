package govern

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/internal/cli/console"
)

// hashForm matches a record's hash.
var hashForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Verify returns exthost calls verify, which checks the audit log.
func Verify(c *console.Console) *cobra.Command {
	var expect string
	cmd := &cobra.Command{
		Use:         "verify",
		Short:       "Check that no record was changed, removed or put in",
		Annotations: console.AsksHost,
		Long: "Check the chain of hashes through all files of the audit log, and name the calls that were\n" +
			"sent and have no outcome. The exit code is 1 when a line was changed, removed or inserted.\n\n" +
			"The chain alone does not show that records are missing at its end, nor that somebody who may\n" +
			"write the files made them anew. The host tells its log the hash of the last record every\n" +
			"audit.anchor and when it ends; --expect with one of these hashes shows that the record is\n" +
			"still there, with all records before it, and exits with 1 when it is not.",
		Example: "  exthost calls verify\n  exthost calls verify --expect 9f86d081…  # 64 digits, from the log",
		Args:    console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			expect = strings.ToLower(expect)
			if expect != "" && !hashForm.MatchString(expect) {
				return console.Usagef("", "--expect %q is no hash: 64 hexadecimal digits, as the host's log has them",
					expect)
			}
			paths, err := auditPaths(cmd.Context(), c, false)
			if err != nil {
				return err
			}
			return verifyAudit(c, paths, expect)
		},
	}
	cmd.Flags().StringVar(&expect, "expect", "", "a `HASH` from the log of the host, which must be that of a record")
	return cmd
}

// verification is the result for one log.
type verification struct {
	audit.Report
	Broken string `json:"broken,omitempty"` // place and kind of the damage
}

func verifyAudit(c *console.Console, paths []string, expect string) error {
	list, lines, code := []verification{}, []string{}, console.ExitOK
	var found *audit.Place
	deleted := false // whether audit.keep has removed earlier files of a log
	for _, path := range paths {
		v, words, err := verifyLog(path, expect)
		if err != nil {
			return err
		}
		if v.Broken != "" {
			code = console.ExitFailed
		}
		found, deleted = cmp.Or(found, v.Expected), deleted || v.First > 1
		list, lines = append(list, v), append(lines, words...)
	}
	switch {
	case expect == "":
		lines = append(lines, "not known: whether records are missing at the end, or all were made anew; verify "+
			"--expect HASH tells, with a hash from the host's log")
	case found != nil:
		lines = append(lines, fmt.Sprintf("expected: record %d, %s:%d, of %s; it and the records before it are as "+
			"they were when the host told its hash",
			found.Number, found.File, found.Line, found.Time.Local().Format(time.RFC3339)))
	default:
		code = console.ExitFailed
		lines = append(lines, missing(deleted))
	}
	for i := range lines {
		lines[i] = console.Safe(lines[i])
	}
	return c.Print(console.Document{
		Kind:  "audit",
		Value: list,
		Names: paths,
		Text:  strings.Join(lines, "\n"),
		Code:  code,
	})
}

// missing explains that no record has the expected hash.
func missing(deleted bool) string {
	words := "missing: no record has the expected hash: records were removed at the end, or made anew, or the hash " +
		"is of another log"
	if deleted {
		words += ", or of a file that was deleted because of audit.keep"
	}
	return words
}

// verifyLog checks the hash chain of one log; words are the result for a person.
func verifyLog(path, expect string) (v verification, words []string, err error) {
	files, err := audit.Files(path)
	if err != nil {
		return v, nil, err
	}
	v.Report, err = audit.VerifyExpecting(expect, files...)
	if damage, ok := errors.AsType[*audit.Broken](err); ok {
		v.Broken = damage.Error()
		return v, []string{
			fmt.Sprintf("broken: %s; %d records before it are as they were written", damage, v.Records),
		}, nil
	}
	if err != nil {
		return v, nil, err
	}
	if v.Records == 0 {
		return v, []string{path + ": intact, no records yet"}, nil
	}
	words = []string{
		fmt.Sprintf("%s: intact, %d records in %s, up to number %d of %s, hash %s", path, v.Records,
			console.Plural(len(files), "file"), v.Last, v.Until.Local().Format(time.RFC3339), v.Hash),
	}
	for i := range v.Unfinished {
		words = append(words, unfinished(&v.Unfinished[i]))
	}
	return v, words, nil
}

// unfinished describes a call that has no outcome.
func unfinished(r *audit.Record) string {
	return fmt.Sprintf("%s: %s %s, sent %s by %s, %s", r.Outcome, cmp.Or(r.Tool, r.Method), r.ID,
		r.Time.Local().Format(time.RFC3339),
		cmp.Or(r.Caller, "an anonymous caller"), cmp.Or(r.Error, "is in flight"))
}
