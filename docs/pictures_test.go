package docs_test

import (
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPictures holds the pictures of the README against what .ci/pictures makes: the terminal shows the commands of its
// session and what they print, and loads nothing; the dashboard is a picture of one screen.
func TestPictures(t *testing.T) {
	session, err := os.ReadFile(filepath.Join(root, ".ci/pictures.session"))
	if err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile("images/terminal.svg")
	if err != nil {
		t.Fatal(err)
	}
	shown := shownBy(t, string(svg))
	for line := range strings.Lines(string(session)) {
		if command := "$" + strings.TrimSpace(line); !strings.Contains(shown, command) {
			t.Errorf("the picture of the terminal lacks %q: run .ci/pictures", command)
		}
	}
	if !strings.Contains(shown, "READY") {
		t.Errorf("the host of the picture is not ready: %s", shown)
	}
	for _, loads := range []string{"@font-face", "url(http", "<image", "<script"} {
		if strings.Contains(string(svg), loads) {
			t.Errorf("the picture of the terminal has %s", loads)
		}
	}
	file, err := os.Open("images/dashboard.png")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if about, err := png.DecodeConfig(file); err != nil || about.Width != 1280 {
		t.Errorf("the picture of the dashboard: %v, %+v", err, about)
	}
}

// shownBy returns the text of an SVG, without the blanks that are a place on the line.
func shownBy(t *testing.T, svg string) string {
	t.Helper()
	var text strings.Builder
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return strings.ReplaceAll(text.String(), "\u00a0", " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := token.(xml.CharData); ok {
			text.Write(data)
		}
	}
}
