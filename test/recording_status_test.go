package test

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/listing/toolsearch"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// TestStatusSaysWhatIsRecorded checks the status of a configured recording and of one made by a program.
func TestStatusSaysWhatIsRecorded(t *testing.T) {
	processtest.Leaks(t)
	f, file := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")), filepath.Join(t.TempDir(), "traffic.cassette")
	cfg := f.Config()
	cfg.Record = config.Cassette{File: file, Extensions: []string{"x"}}
	h := f.OpenWith(cfg, exthost.Options{})
	if err := hosttest.Greet(t, h, "Ada"); err != nil {
		t.Fatal(err)
	}
	var list []status.Recording
	hosttest.Eventually(t, "the frames are written", func() bool {
		list = h.Status().Recordings
		return len(list) == 1 && list[0].Waiting == 0 && list[0].Records >= 4 // start, offer, sent, received
	})
	if r := list[0]; r.File != file || len(r.Extensions) != 1 || r.Since.IsZero() || r.Omitted != 0 {
		t.Errorf("%+v", r)
	}
	ctx, stop := context.WithCancel(hosttest.Deadline(t))
	ended := make(chan error, 1)
	go func() { ended <- h.Recordings().Record(ctx, exthost.RecordOptions{}, io.Discard) }()
	hosttest.Eventually(t, "the second recording is told", func() bool {
		list := h.Status().Recordings
		return len(list) == 2 && list[1].File == "" && list[1].Extensions == nil
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := h.Status().Recordings; len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestStatusSaysWhatSessionsAreListed attaches sessions of every mode.
func TestStatusSaysWhatSessionsAreListed(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	cfg := f.Config()
	cfg.Tools.Mode, cfg.Tools.SearchAbove = toolsearch.ModeAuto, 10
	h := f.OpenWith(cfg, exthost.Options{})
	if err := h.Ready(hosttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"auto": "search", "defers": "all", "all": "all", "one": "all", "search": "search"}
	for _, s := range []*protocol.Session{
		{ID: "auto"}, {ID: "defers", ClientInfo: json.RawMessage(`{"name":"claude-code"}`)},
		{ID: "all", ToolMode: toolsearch.ModeAll},
		{ID: "one", Extension: "x"},
		{ID: "search", ToolMode: toolsearch.ModeSearch, ClientInfo: json.RawMessage(`{"name":"claude-code"}`)},
	} {
		s.Client = hosttest.NewRecorder()
		if err := h.Attach(hosttest.Deadline(t), s); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range h.Admin().Status().Clients {
		if c.Tools != want[c.Session] {
			t.Errorf("%s is said to be listed %q, want %q", c.Session, c.Tools, want[c.Session])
		}
		delete(want, c.Session)
	}
	if len(want) > 0 {
		t.Errorf("not said of %v", want)
	}
}
