// Package authoring has what helps the author of an extension: checks, templates, and the extensions that come along.
package authoring
