package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/exthost/exthost/internal/file"
)

// Report is the result of [Verify].
type Report struct {
	Files   []string `json:"files"`
	Records uint64   `json:"records"`
	// the number of the first record; above 1, earlier files have been deleted
	First uint64 `json:"first"`
	Last  uint64 `json:"last"` // the number of the last record
	// of the last record. Hash and Last together identify all records up to the last
	Hash  string    `json:"hash"`
	Until time.Time `json:"until"` // the time of the last record
	// bytes after the last complete line: a line being written, or torn by a crash
	Torn int `json:"torn,omitempty"`

	// Unfinished are the intents without an outcome, marked [Lost] or [Pending]. They lack the copy
	// of the request.
	Unfinished []Record `json:"unfinished,omitempty"`
	// Expected is the record with the hash that was expected; nil when there is none.
	Expected *Place `json:"expected,omitempty"`

	expect string
	open   unanswered
}

// Place is the position of a record.
type Place struct {
	File   string    `json:"file"`
	Line   int       `json:"line"` // from 1 on
	Number uint64    `json:"number"`
	Time   time.Time `json:"time"`
}

// Broken is the position at which a chain is broken.
type Broken struct {
	File   string
	Line   int // from 1 on
	Reason string
}

// Error begins with file:line.
func (b *Broken) Error() string { return fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Reason) }

// Files returns the existing files of the log at path, the oldest first.
func Files(path string) ([]string, error) {
	var files []string
	for n := 1; ; n++ {
		if _, err := os.Lstat(rotated(path, n)); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return nil, err
		}
		files = append([]string{rotated(path, n)}, files...)
	}
	if _, err := os.Lstat(path); err == nil {
		files = append(files, path)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no audit log at %s", path)
	}
	return files, nil
}

// Verify checks the chain through files, the oldest first, as [Files] returns them. The error is a
// *[Broken] at the first line that was changed or does not follow the one before it. Verify does
// not detect lines removed from the end, or an end that was rewritten with new hashes;
// [VerifyExpecting] does.
func Verify(files ...string) (Report, error) { return VerifyExpecting("", files...) }

// VerifyExpecting is [Verify] and also looks for the record with a hash that was kept elsewhere,
// such as an anchor in the log of the host. If Report.Expected is nil, that record, and possibly
// records before it, were removed or rewritten.
func VerifyExpecting(hash string, files ...string) (Report, error) {
	report := Report{Files: files, expect: hash}
	for i, name := range files {
		f, _, err := file.OpenRegular(name, os.O_RDONLY, 0)
		if err != nil {
			return report, err
		}
		torn, err := report.verify(name, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return report, err
		}
		if torn > 0 && i < len(files)-1 {
			return report, &Broken{name, 0, "the file ends within a line, and another file follows"}
		}
		report.Torn = torn
	}
	if len(files) > 0 {
		report.Unfinished = append(report.Unfinished, report.open.rest(files[len(files)-1])...)
	}
	return report, nil
}

// verify checks the chain through one file and returns the number of bytes after its last
// complete line.
func (report *Report) verify(name string, f io.Reader) (torn int, err error) {
	r := bufio.NewReaderSize(f, maxLine)
	for n := 1; ; n++ {
		line, err := r.ReadSlice('\n')
		switch {
		case err == io.EOF:
			return len(line), nil
		case err == bufio.ErrBufferFull:
			return 0, &Broken{name, n, "the line is far too long for a record"}
		case err != nil:
			return 0, err
		}
		l, ok := parseLink(line[:len(line)-1])
		if reason := report.follows(l, ok); reason != "" {
			return 0, &Broken{name, n, reason}
		}
		if report.Records == 0 {
			report.First = l.Seq
		}
		report.Records++
		report.Last, report.Hash, report.Until = l.Seq, l.Hash, l.Time
		if l.Hash == report.expect {
			report.Expected = &Place{File: name, Line: n, Number: l.Seq, Time: l.Time}
		}
		report.pair(l, line)
	}
}

// pair pairs intents with outcomes.
func (report *Report) pair(l link, line []byte) {
	if l.Opened {
		report.Unfinished = append(report.Unfinished, report.open.lost(l.Time)...)
	}
	report.open.note(l.Time, l.Duration)
	switch {
	case l.Kind == KindIntent:
		var r Record
		_ = json.Unmarshal(line, &r) // parseLink has decoded it
		r.Request.JSON, r.Request.Cut = nil, ""
		report.open.add(r)
	case endsCall(l.Kind, l.Method):
		report.open.ended(l.ID)
	}
}

// follows returns the reason why l is not the next record, "" when it is.
func (report *Report) follows(l link, ok bool) string {
	expected := report.Last + 1
	switch {
	case !ok:
		return "the record is not as it was written"
	case report.Records == 0 && l.Seq == 1 && l.Prev != "":
		return "the first record of all follows another"
	case report.Records == 0:
		return ""
	case l.Seq == expected && l.Prev == report.Hash:
		return ""
	case l.Seq > expected:
		return fmt.Sprintf("the records %d to %d before it are missing", expected, l.Seq-1)
	case l.Seq < expected:
		return fmt.Sprintf("record %d stands where %d belongs: it was put in, or moved", l.Seq, expected)
	}
	return fmt.Sprintf("record %d does not follow the one before it: one of them was replaced", l.Seq)
}
