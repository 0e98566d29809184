// The rules of all operations that builders and passes write; each stands with its kind in this
// folder.
#pragma once

#include "engine/program/operation.hpp"

namespace atl::rules {

// copies.cpp
extern const Rule kFeatures;        // [nodes, features] of the dataset
extern const Rule kEmbeddings;      // [nodes, columns] of another program, with rows of other ranks
extern const Rule kNodeParameters;  // the same, trained: a row per node, on the rank that owns it
extern const Rule kParameter;       // a trained matrix or row
extern const Rule kCopy;            // of the features, with room for halo rows
// Values that wait for backward in host memory (offload.hpp). Copies run beside computing, from
// the first operation of a pair to the second.
extern const Rule kStore;  // begins to copy a value to host memory; names what lies there then
extern const Rule kFinishStore;    // waits for that: from here on the value itself may go
extern const Rule kFetch;          // begins to copy it back
extern const Rule kFinishFetch;    // waits for that, in the place of what is fetched
extern const Rule kFetchComputed;  // the aggregates of computed rows from their owners
extern const Rule kTakeComputed;   // the computed rows of a matrix with halo rows
extern const Rule kPlaceComputed;  // computed rows times their factors among the halo rows

// dense.cpp
extern const Rule kLinear;          // x W, or x W^T
extern const Rule kWeightGradient;  // adds x^T dy to the gradient of a parameter
extern const Rule kNodeGradient;    // dy is that of the parameters of nodes

// by_type.cpp: x_v W_t(v) + b_t(v) of rows that are sorted by type (NodeTypeRows)
extern const Rule kSortByType;
extern const Rule kLinearByType;
extern const Rule kWeightGradientByType;
extern const Rule kBiasGradientByType;

// elementwise.cpp
extern const Rule kCombine;           // u a + v b, or u a
extern const Rule kBias;              // x + b
extern const Rule kBiasGradient;      // adds column sums of dy to the gradient of b
extern const Rule kActivate;          // dropout(f(x))
extern const Rule kActivateBackward;  // dx from dy and y, or, of gelu, x
extern const Rule kMaximum;           // the larger of a and b, element by element
extern const Rule kMaximumGradient;   // dy where a was taken (ties too), or where b was
extern const Rule kScale;             // e x with a trained number e
extern const Rule kScaleGradient;     // adds the sum of dy x to the gradient of e
extern const Rule kScaleByDegree;     // rows times a root of how many edges they have

// head_linear.cpp
extern const Rule kHeadLinear;          // per head x_h M_h, or x_h M_h^T
extern const Rule kHeadWeightGradient;  // adds x_h^T dy_h to the gradient of M_h

// neighbourhood.cpp
extern const Rule kAggregate;  // S x, or S^T x

// attention.cpp (kernels/attention.hpp). z, t and the scores of z's rows are values.
extern const Rule kHeadDots;          // per head the product of a row with a trained vector
extern const Rule kHeadDotsBackward;  // dx; adds to the gradient of the vector
extern const Rule kHeadMean;          // the mean over heads
extern const Rule kHeadMeanBackward;
extern const Rule kEdgeScores;          // features of edges, and their means, times a weight
extern const Rule kEdgeScoresGradient;  // adds to that of the weight, from coefficients
extern const Rule kAttend;              // rows of neighbours of z, weighted
extern const Rule kCoefficients;        // room for what the next one finds out about edges
extern const Rule kAttendTargets;       // dt; fills the coefficients
extern const Rule kAttendHalo;
extern const Rule kAttendSources;

// relations.cpp
extern const Rule kAggregateRelations;  // S_r x of every relation r, side by side
extern const Rule kRelationsHalo;
extern const Rule kRelationsSources;

// pool.cpp (kernels/pool.hpp)
extern const Rule kPool;  // rows of neighbours column by column
extern const Rule kPoolTargets;
extern const Rule kPoolSlope;  // of what is pooled, with respect to a trained sharpness
extern const Rule kPoolHalo;
extern const Rule kPoolSources;

// edges.cpp (kernels/edge_terms.hpp)
extern const Rule kAggregateEdges;  // sum of rows with what features of edges add to them
extern const Rule kEdgesHalo;
extern const Rule kEdgesSources;
extern const Rule kEdgesTerms;

// pairs.cpp: pairs of embeddings u and v
extern const Rule kPairProducts;  // u v, element by element
extern const Rule kPairDots;      // <u, v>
extern const Rule kScores;        // numbers of pairs in the parameters' type
extern const Rule kNarrow;        // gradients of these as the products before them read them
extern const Rule kEndRows;       // what u gets from the gradient of u v, and what v gets
extern const Rule kEndFactors;    // the same of <u, v>: factors of the other embedding
extern const Rule kAddEnds;       // adds both to the gradients of embeddings

// norm.cpp
extern const Rule kLayerNorm;          // Ba et al. 2016
extern const Rule kLayerNormBackward;  // dx; adds to the gradients of gamma and beta
// Batch norm (Ioffe & Szegedy 2015) with statistics over all ranks, see kernels/operations.
extern const Rule kMoments;       // this rank's sums of x and x^2
extern const Rule kStatistics;    // mean and deviation of all ranks' sums; moves the running ones
extern const Rule kInverseStd;    // the same of the running statistics
extern const Rule kNormalise;     // (x - mean) / deviation * gamma + beta
extern const Rule kNormSums;      // this rank's sums of dy and dy * normalised x
extern const Rule kNormBackward;  // dx
extern const Rule kSumRanks;      // of small sums over all ranks

// part.cpp: of a matrix that the ranks of a part share by rows, a share by columns, and back
extern const Rule kToColumns;
extern const Rule kToRows;

// epoch.cpp
extern const Rule kLoss;               // d loss / d logits, and this rank's part of the loss
extern const Rule kZeroGradients;      // of all parameters
extern const Rule kComposedGradients;  // of what composed weights are made of, from theirs
extern const Rule kSumGradients;       // over all ranks
extern const Rule kStep;               // of the optimizer

}  // namespace atl::rules
