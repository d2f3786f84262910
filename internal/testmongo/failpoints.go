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

// FailCommand makes the primary fail the next commands as data says, times times; 0 ends it. data is that of MongoDB's
// fail point failCommand: failCommands, closeConnection, errorCode, writeConcernError, blockConnection, blockTimeMS.
// The commands fail before they are run, except with writeConcernError.
func (rs *ReplicaSet) FailCommand(ctx context.Context, times int, data bson.M) error {
	return rs.FailPoint(ctx, "failCommand", Times(times), data)
}

// LoseAnswers makes the primary close the connection right after each of the next retryable writes has been written. So
// its answer is lost, times times; 0 ends it.
func (rs *ReplicaSet) LoseAnswers(ctx context.Context, times int) error {
	return rs.FailPoint(ctx, "onPrimaryTransactionalWrite", Times(times), bson.M{"closeConnection": true})
}

// Times is the mode of a fail point that acts n times; 0 ends it.
func Times(n int) any {
	if n == 0 {
		return "off"
	}
	return bson.M{"times": n}
}

// After is the mode of a fail point that lets n commands pass and then acts until it is ended.
func After(n int) any { return bson.M{"skip": n} }

// FailPoint sets a fail point of the primary.
func (rs *ReplicaSet) FailPoint(ctx context.Context, name string, mode any, data bson.M) error {
	command := bson.D{{Key: "configureFailPoint", Value: name}, {Key: "mode", Value: mode}}
	if data != nil {
		command = append(command, bson.E{Key: "data", Value: data})
	}
	if err := rs.RunOnPrimary(ctx, command).Err(); err != nil {
		return fmt.Errorf("fail point %s (the server needs --setParameter enableTestCommands=1): %w", name, err)
	}
	return nil
}

// Sometimes is the mode of a fail point that acts with this probability, 0 to 1, until it is ended.
func Sometimes(probability float64) any { return bson.M{"activationProbability": probability} }

// EndFailPoints ends failCommand and LoseAnswers on every node, whatever its role: the one that they were set on may
// not be the primary any more. The error is that of nodes that did not answer.
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
