package alerts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

var promQL = parser.NewParser(parser.Options{})

// check says what an expression names that is not there: metrics, labels, and values of labels whose values are known.
func (e exposed) check(expr string) []string {
	tree, err := promQL.ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	inspect(tree, func(node parser.Node) {
		switch n := node.(type) {
		case *parser.VectorSelector:
			e.checkSelector(n, say)
		case *parser.AggregateExpr:
			e.checkLabels(n.Expr, n.Grouping, say)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				e.checkLabels(
					n, append(slices.Clone(n.VectorMatching.MatchingLabels), n.VectorMatching.Include...), say,
				)
			}
		}
	})
	return wrong
}

func (e exposed) checkSelector(s *parser.VectorSelector, say func(string, ...any)) {
	if _, ok := e[s.Name]; !ok {
		say("there is no metric %q", s.Name)
		return
	}
	for _, m := range s.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			continue
		}
		if !e.has(s.Name, m.Name) {
			say("%s has no label %q", s.Name, m.Name)
			continue
		}
		known := e[s.Name][m.Name]
		if len(known) == 0 || slices.Contains(open, m.Name) || slices.Contains(targetLabels, m.Name) {
			continue
		}
		for value := range strings.SplitSeq(m.Value, "|") { // of a regular expression, the alternatives
			if !slices.Contains(known, value) {
				say("%s has no %s %q, there are %v", s.Name, m.Name, value, known)
			}
		}
	}
}

// checkLabels looks whether some metric below a node has each label.
func (e exposed) checkLabels(below parser.Node, names []string, say func(string, ...any)) {
	for _, label := range names {
		found := false
		inspect(below, func(node parser.Node) {
			if s, ok := node.(*parser.VectorSelector); ok {
				found = found || e.has(s.Name, label)
			}
		})
		if !found {
			say("no metric in %s has the label %q", below, label)
		}
	}
}

func inspect(tree parser.Node, visit func(parser.Node)) {
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		if node != nil {
			visit(node)
		}
		return nil
	})
}

// metricsIn are the metrics that an expression names.
func metricsIn(expr string) []string {
	tree, err := promQL.ParseExpr(expr)
	if err != nil {
		return nil
	}
	var names []string
	inspect(tree, func(node parser.Node) {
		if s, ok := node.(*parser.VectorSelector); ok {
			names = append(names, s.Name)
		}
	})
	return names
}

// unselected are the metrics that an expression does not limit to one namespace and job.
func unselected(expr string) []string {
	tree, err := promQL.ParseExpr(expr)
	if err != nil {
		return nil
	}
	var names []string
	inspect(tree, func(node parser.Node) {
		s, ok := node.(*parser.VectorSelector)
		if !ok {
			return
		}
		for _, label := range []string{"namespace", "job"} {
			if !slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == label }) {
				names = append(names, s.Name)
			}
		}
	})
	return names
}

// kept says whether series that an expression gives can have the label. Only "by" is known of aggregations, and of
// absent that its labels are those that it was asked for.
func (e exposed) kept(expr, label string) bool {
	tree, err := promQL.ParseExpr(expr)
	return err == nil && e.keptBy(tree, label)
}

func (e exposed) keptBy(node parser.Node, label string) bool {
	switch n := node.(type) {
	case *parser.VectorSelector:
		return e.has(n.Name, label)
	case *parser.AggregateExpr:
		return !n.Without && slices.Contains(n.Grouping, label)
	case *parser.BinaryExpr:
		left, right := e.keptBy(n.LHS, label), e.keptBy(n.RHS, label)
		switch {
		case n.Op == parser.LOR:
			return left || right
		case n.LHS.Type() == parser.ValueTypeScalar:
			return right
		default:
			return left
		}
	case *parser.Call:
		if n.Func.Name == "absent" {
			return asked(n.Args[0], label)
		}
		return slices.ContainsFunc(n.Args, func(arg parser.Expr) bool { return e.keptBy(arg, label) })
	case *parser.MatrixSelector:
		return e.keptBy(n.VectorSelector, label)
	case *parser.ParenExpr:
		return e.keptBy(n.Expr, label)
	default:
		return false
	}
}

// asked says whether a selector asks for one value of the label.
func asked(node parser.Node, label string) bool {
	s, ok := node.(*parser.VectorSelector)
	return ok && slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool {
		return m.Name == label && m.Type == labels.MatchEqual && m.Value != ""
	})
}

// mentioned are the first groups of all matches, each once.
func mentioned(pattern *regexp.Regexp, text string) []string {
	var names []string
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}
