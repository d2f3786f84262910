//go:build unix

package testmongo

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// failPoints are those that this package sets.
var failPoints = []string{"failCommand", "onPrimaryTransactionalWrite"}

// Sometimes is the mode of a fail point that acts with this probability, 0 to 1, until it is ended.
func Sometimes(probability float64) any { return bson.M{"activationProbability": probability} }

// EndFailPoints ends failCommand and LoseAnswers on every node, whatever its role: the one that they were set on may not be the
// primary any more. The error is that of nodes that did not answer.
func (rs *ReplicaSet) EndFailPoints(ctx context.Context) error {
	if rs.external != "" {
		return ErrExternal
	}
	var all []error
	for _, n := range rs.nodes {
		for _, name := range failPoints {
			command := bson.D{{Key: "configureFailPoint", Value: name}, {Key: "mode", Value: "off"}}
			if err := n.Run(ctx, command).Err(); err != nil {
				all = append(all, fmt.Errorf("end fail point %s on %s: %w", name, n.Addr(), err))
			}
		}
	}
	return errors.Join(all...)
}
