// Pictures for training, from C++: a dataset is opened, and a loader makes batches of it on threads
// of its own. Link stretto::stretto, of a build with STRETTO_BUILD_MEDIA (the default).
//
//     using namespace stretto::data;
//     LoaderOptions options;
//     options.phases[0].shape.batch = 64;
//     Loader loader(open_dataset("imagenet/train"), options);
//     while (const auto batch = loader.next()) train(batch->data, batch->labels, batch->count);
#pragma once

#include "stretto/data/dataset.h"  // what is read, and from where
#include "stretto/data/loader.h"   // batches of it
#include "stretto/data/order.h"    // which sample comes when
#include "stretto/data/remote.h"   // what lies in a store, by a Store of your own
