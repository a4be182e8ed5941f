package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/exthost/exthost/internal/regular"
)

// Report is the result of [Verify].
type Report struct {
	Files   []string  `json:"files"`
	Records uint64    `json:"records"`
	First   uint64    `json:"first"`          // the number of the first record; above 1, earlier files have been deleted
	Last    uint64    `json:"last"`           // the number of the last record
	Hash    string    `json:"hash"`           // of the last record, which together with Last identifies all records before it
	Until   time.Time `json:"until"`          // the time of the last record
	Torn    int       `json:"torn,omitempty"` // bytes after the last complete line: a line being written, or torn by a crash
}

// Broken is the position at which a chain is broken.
type Broken struct {
	File   string
	Line   int    // from 1 on
	Reason string // counts from 1
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

// Verify checks the chain through files, the oldest first, as [Files] returns them. The
// error is a *[Broken] at the first line that was changed or does not follow the one before
// it. Verify does not detect lines missing at the end, nor an end that was rewritten with
// new hashes: compare the report with an earlier one.
func Verify(files ...string) (Report, error) {
	report := Report{Files: files}
	for i, name := range files {
		f, _, err := regular.Open(name, os.O_RDONLY, 0)
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
