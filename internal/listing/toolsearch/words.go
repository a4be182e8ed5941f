package toolsearch

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/text/display"
)

// split returns the words of a text for comparison: in lower case, English words without endings. createIssue
// also yields create and issue. Scripts without blanks between words yield pairs of characters. It returns at
// most maxWords words of at most maxWord bytes.
func split(text string) (words []string) {
	for text != "" && len(words) < maxWords {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case dense(r):
			n := run(text, dense)
			words = append(words, pairs(display.Prefix(text[:n], utf8.UTFMax*(maxWords-len(words))))...)
			text = text[n:]
		case inWord(r):
			n := run(text, func(r rune) bool { return inWord(r) && !dense(r) })
			words = append(words, forms(display.Prefix(text[:n], maxWord))...)
			text = text[n:]
		default:
			text = text[size:]
		}
	}
	return words[:min(len(words), maxWords)]
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// dense reports whether r belongs to a script without blanks between words.
func dense(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar)
}

// run returns the length of the prefix of text whose characters satisfy is.
func run(text string, is func(rune) bool) int {
	if n := strings.IndexFunc(text, func(r rune) bool { return !is(r) }); n >= 0 {
		return n
	}
	return len(text)
}

// pairs returns all pairs of neighbouring characters, or a single character.
func pairs(text string) (words []string) {
	last := -1
	for n, r := range text {
		if last >= 0 {
			words = append(words, text[last:n+utf8.RuneLen(r)])
		}
		last = n
	}
	if len(words) == 0 {
		words = []string{text}
	}
	return words
}

// forms returns a word, and its parts if it is in camel case.
func forms(word string) []string {
	var parts []string
	begin, before := 0, rune(0)
	for n, r := range word {
		if n > 0 && unicode.IsUpper(r) && !unicode.IsUpper(before) {
			parts, begin = append(parts, stem(strings.ToLower(word[begin:n]))), n
		}
		before = r
	}
	whole := stem(strings.ToLower(word))
	if begin == 0 {
		return []string{whole}
	}
	return append(parts, stem(strings.ToLower(word[begin:])), whole)
}

// stem returns an English word without its ending, so that files, filed and filing are equal. In other languages
// it removes at most a similar ending; words with letters beyond ASCII stay whole.
func stem(word string) string {
	if strings.IndexFunc(word, func(r rune) bool { return r > unicode.MaxASCII }) >= 0 {
		return word
	}
	cut := func(suffix string, least int) bool {
		rest, ok := strings.CutSuffix(word, suffix)
		if ok = ok && len(rest) >= least; ok {
			word = rest
		}
		return ok
	}
	switch {
	case cut("ies", 3):
		word += "y"
	case cut("sses", 2):
		word += "ss"
	case strings.HasSuffix(word, "ss"), strings.HasSuffix(word, "us"), strings.HasSuffix(word, "is"):
	default:
		cut("s", 3)
	}
	switch {
	case cut("ing", 3), cut("ed", 3):
		switch n := len(word); {
		case n > 3 && word[n-1] == word[n-2] && !isOneOf(word[n-1], "lsz"):
			word = word[:n-1] // planning, plan
		case n == 3 && !isOneOf(word[0], vowels) && isOneOf(word[1], vowels) && !isOneOf(word[2], vowels+"wxy"):
			word += "e" // moving, move
		}
	case strings.HasSuffix(word, "tion"), strings.HasSuffix(word, "sion"):
		cut("ion", 3)
	}
	cut("e", 4)
	return word
}

const vowels = "aeiou"

func isOneOf(c byte, set string) bool { return strings.IndexByte(set, c) >= 0 }

// common are words of questions that do not describe a tool.
var common = set(`a about again all also am an and any are as at be been but by can could did do does doing for from had has have
	how i if in into is it its just let like me my need no not of on or our out please should so some that the their them then there these
	they this to up us using want was we were what when where which who why will with would you your`)

// alike are words that users and authors of tools use for the same thing.
var alike = groups(
	"create add new make open start", "delete remove erase cancel drop forget rid",
	"find search look query lookup locate",
	"get read fetch show retrieve view see tell", "list show all", "update edit change modify replace set",
	"send post mail message tell",
	"directory folder", "file document", "email mail", "image picture photo screenshot", "repository repo project",
	"database db sql table",
	"pr pull", "bug issue ticket problem", "error crash exception failure", "message msg chat",
	"event meeting appointment",
	"customer client", "page site website url link address", "run execute exec", "write save store", "move rename",
	"download save",
	"path location", "user people person member", "container pod", "deploy apply", "web internet online",
	"button element", "press click",
	"remember memory store", "time hour clock", "money payment pay balance", "label tag mark", "enter type input fill",
	"structure tree hierarchy outline",
	"know remember recall fact",
)

func set(text string) map[string]bool {
	words := make(map[string]bool)
	for _, word := range split(text) {
		words[word] = true
	}
	return words
}

// groups maps each word of a group to the others.
func groups(texts ...string) map[string][]string {
	others := make(map[string][]string)
	for _, text := range texts {
		words := split(text)
		for _, word := range words {
			for _, other := range words {
				if other != word {
					others[word] = append(others[word], other)
				}
			}
		}
	}
	return others
}
