package text

import "strings"

// Slug returns a name in the characters of an id: a-z, 0-9, _ and -. A name that does not begin with a letter then gets
// the word before it.
func Slug(name, word string) string {
	slug := strings.Trim(strings.Map(func(c rune) rune {
		switch {
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-':
			return c
		}
		return '-'
	}, name), "-_")
	if slug == "" || slug[0] < 'a' || slug[0] > 'z' {
		return strings.TrimSuffix(word+"-"+slug, "-")
	}
	return slug
}
