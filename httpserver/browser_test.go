package httpserver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// browser is one page of a headless Chromium, controlled over its debugging pipe: JSON objects, each followed by NUL.
type browser struct {
	t       *testing.T
	to      *os.File
	from    *os.File
	read    *bufio.Reader
	session string
	last    int
	said    []string // exceptions, console errors and policy violations in the page
}

// browsers are the names of Chromium in PATH.
var browsers = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome"}

// openBrowser starts Chromium with an empty page until the end of the test. It skips the test if Chromium is not
// installed.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	processtest.Optional(t)
	var program string
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	missing := "no headless browser: none of " + strings.Join(browsers, ", ") + " is on PATH"
	switch {
	case runtime.GOOS == "windows":
		t.Skip("SKIPPED: Windows passes a browser no pipe")
	case program == "" && os.Getenv("EXTHOST_PEERS") != "":
		t.Fatal(missing) // EXTHOST_PEERS promises that all is installed
	case program == "":
		t.Skip("SKIPPED: " + missing)
	}
	reads, to := pipe(t)
	from, writes := pipe(t)
	cmd := exec.Command(program, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage",
		"--no-first-run", "--hide-scrollbars", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{reads, writes} // file descriptors 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reads.Close()
	writes.Close()
	b := &browser{t: t, to: to, from: from, read: bufio.NewReaderSize(from, 1<<20)}
	t.Cleanup(func() {
		b.session = ""
		_ = b.try("Browser.close", nil, nil)
		to.Close()
		from.Close()
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // the exit status does not matter
		late.Stop()
	})
	var target struct{ TargetID, SessionID string }
	b.do("Target.createTarget", object{"url": "about:blank"}, &target)
	b.do("Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.do(domain+".enable", nil, nil)
	}
	return b
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// do sends a command and reads its result.
func (b *browser) do(method string, params, into any) {
	b.t.Helper()
	if err := b.try(method, params, into); err != nil {
		b.t.Fatalf("%s: %v; the page says %q", method, err, b.said)
	}
}

func (b *browser) try(method string, params, into any) error {
	b.last++
	command := object{"id": b.last, "method": method}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	if params != nil {
		command["params"] = params
	}
	data, err := json.Marshal(command)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(2 * patience)
	_ = b.to.SetWriteDeadline(deadline)
	_ = b.from.SetReadDeadline(deadline)
	if _, err := b.to.Write(append(data, 0)); err != nil {
		return err
	}
	for {
		frame, err := b.read.ReadBytes(0)
		if err != nil {
			return err
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(frame[:len(frame)-1], &m); err != nil {
			return err
		}
		switch {
		case m.Method != "":
			b.hear(m.Method, m.Params)
		case m.ID != b.last:
		case m.Error != nil:
			return fmt.Errorf("%s", m.Error.Message)
		case into != nil:
			return json.Unmarshal(m.Result, into)
		default:
			return nil
		}
	}
}

// hear records errors in the page.
func (b *browser) hear(event string, params json.RawMessage) {
	var p struct {
		Type  string
		Entry struct{ Level, Text, URL string }
	}
	_ = json.Unmarshal(params, &p) // other events are ignored
	if event == "Runtime.exceptionThrown" || event == "Runtime.consoleAPICalled" && p.Type == "error" ||
		event == "Log.entryAdded" && p.Entry.Level == "error" {
		b.said = append(b.said, string(params))
	}
}

// open loads a URL.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do("Page.navigate", object{"url": url}, nil)
}

// look sets the size of the page and its colour scheme.
func (b *browser) look(width, height int, scheme string) {
	b.t.Helper()
	b.do("Emulation.setDeviceMetricsOverride",
		object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.do("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}}},
		nil)
}

// eval returns the value of an expression in the page, as JSON. If another page loads meanwhile, eval runs again.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var r struct {
		Result struct {
			Value json.RawMessage
		}
		ExceptionDetails json.RawMessage
	}
	ask := object{"expression": expression, "awaitPromise": true, "returnByValue": true}
	err := b.try("Runtime.evaluate", ask, &r)
	for err != nil && strings.Contains(err.Error(), "navigated") {
		err = b.try("Runtime.evaluate", ask, &r)
	}
	if err != nil || r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %v, %s; the page says %q", expression, err, r.ExceptionDetails, b.said)
	}
	return string(r.Result.Value)
}

// await waits until a condition is true in the page.
func (b *browser) await(condition string) {
	b.t.Helper()
	script := fmt.Sprintf(`new Promise((ok) => {
		const end = Date.now() + %d;
		(function look() {
			let is = false;
			try { is = %s } catch {}
			if (is || Date.now() > end) ok(Boolean(is)); else setTimeout(look, 20);
		})();
	})`, patience.Milliseconds(), condition)
	if b.eval(script) != "true" {
		b.shoot("failed")
		b.t.Fatalf("waited in vain for %s; the page says %.2000q, and shows:\n%.3000s", condition, b.said,
			b.eval("document.body.innerText"))
	}
}

// keyCodes are the codes of keys that the browser itself acts on.
var keyCodes = map[string]int{"Tab": 9, "Escape": 27}

// press types a key.
func (b *browser) press(key, text string) {
	b.t.Helper()
	down := object{"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": keyCodes[key]}
	b.do("Input.dispatchKeyEvent", down, nil)
	b.do("Input.dispatchKeyEvent", object{"type": "keyUp", "key": key}, nil)
}

// phone sets the size of a phone and fails if the page is wider.
func (b *browser) phone(scheme, picture string) {
	b.t.Helper()
	b.look(390, 844, scheme)
	b.await(`document.documentElement.scrollWidth <= 390`)
	b.shoot(picture)
	b.look(1440, 900, "light")
}

// shoot saves a screenshot in the directory EXTHOST_SCREENSHOTS.
func (b *browser) shoot(name string) {
	b.t.Helper()
	dir := os.Getenv("EXTHOST_SCREENSHOTS")
	if dir == "" {
		return
	}
	var shot struct{ Data []byte }
	b.do("Page.captureScreenshot", object{"format": "png"}, &shot)
	if err := os.WriteFile(filepath.Join(dir, name+".png"), shot.Data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
