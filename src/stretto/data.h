// Pictures for training, from C++: a dataset is opened, and a loader makes batches of it on threads
// of its own. Link stretto::stretto, of a build with STRETTO_BUILD_MEDIA (the default).
//
//     using namespace stretto::data;
//     LoaderOptions options;
//     options.phases[0].shape.batch = 64;
//     Loader loader(open_dataset("imagenet/train"), options);
//     while (const auto batch = loader.next()) train(batch->data, batch->labels, batch->count);
//
// concat() reads several datasets as one; order.source_weights mixes them. `boxes` and `masks` of
// the options give what detectors and segmentation need, "mixup" and "cutmix" in `transforms` give
// Batch::targets.
#pragma once

#include "stretto/data/dataset.h"  // what is read, and from where
#include "stretto/data/loader.h"   // batches of it
#include "stretto/data/order.h"    // which sample comes when
#include "stretto/data/remote.h"   // what lies in a store, by a Store of your own
