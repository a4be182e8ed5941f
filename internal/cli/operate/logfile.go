package operate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/local/daemon"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/status"
)

const (
	fileRecords = 256     // records of a file shown without --last
	fileBytes   = 4 << 20 // bytes read at the end of a file
)

// fileLogs prints the last records in the log file of a host that does not answer, and returns silent, the error that
// says so.
func fileLogs(c *console.Console, host daemon.Info, query url.Values, ids []string, silent error) error {
	e, _ := errors.AsType[*console.Error](silent)
	path := cmp.Or(host.Log, host.LogCopy)
	if path == "" {
		e.Hint += "; " + stderrOf(host.PID)
		return e
	}
	tail, err := readTail(path, fileBytes)
	if err != nil {
		e.Text += "; and its log cannot be read: " + err.Error()
		return e
	}
	c.Warn("%s; this is the end of %s", e.Text, path)
	last, err := strconv.Atoi(query.Get("last"))
	if err != nil {
		last = fileRecords
	}
	for _, record := range lastRecords(tail, console.Level(query.Get("level")), ids, last) {
		data, _ := json.Marshal(record) // it was decoded from JSON
		if err := printRecord(c, data); err != nil {
			return err
		}
	}
	e.Text = fmt.Sprintf("the running host (pid %d) does not answer", host.PID)
	return e
}

// stderrOf describes where the stderr of a process goes; without log.file, the log is there.
func stderrOf(pid int) string {
	to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", pid))
	switch {
	case strings.HasPrefix(to, "socket:"):
		return fmt.Sprintf("journalctl _PID=%d may have its log", pid)
	case strings.HasPrefix(to, "/") && to != os.DevNull:
		return "its log goes to " + to
	}
	return "its log goes to its stderr, and log.file keeps a copy of the next one"
}

// readTail reads the whole lines in the last bytes of a file.
func readTail(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	data := make([]byte, min(size, most))
	n, err := f.ReadAt(data, size-int64(len(data)))
	if data = data[:n]; err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if size > most {
		data = data[bytes.IndexByte(data, '\n')+1:]
	}
	return data, nil
}

// lastRecords returns the last records at level or above, oldest first. ids may name one extension or policy:NAME.
func lastRecords(lines []byte, level slog.Level, ids []string, last int) (records []exthost.LogRecord) {
	for _, line := range slices.Backward(bytes.Split(lines, []byte{'\n'})) {
		if len(records) == last {
			break
		}
		record, ok := parseRecord(line)
		if ok && record.Level >= level && (len(ids) == 0 || record.Extension == ids[0]) {
			records = append(records, record)
		}
	}
	slices.Reverse(records)
	return records
}

// parseRecord parses a record written by [slog.JSONHandler].
func parseRecord(line []byte) (record exthost.LogRecord, ok bool) {
	object, err := rawjson.Object(line)
	if err != nil {
		return record, false
	}
	var about struct{ Policy string }
	if json.Unmarshal(object, &record) != nil || record.Time.IsZero() {
		return record, false
	}
	_ = json.Unmarshal(object, &about) // an attribute of another type is no name
	if record.Extension == "" && about.Policy != "" {
		record.Extension = status.PolicyPrefix + about.Policy
	}
	record.Attrs = object
	for _, key := range []string{"time", "level", "msg", "extension", "policy"} {
		record.Attrs = rawjson.Delete(record.Attrs, key)
	}
	if bytes.Equal(record.Attrs, []byte("{}")) {
		record.Attrs = nil
	}
	return record, true
}
