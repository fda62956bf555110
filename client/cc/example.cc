#include <iostream>

#include "client/cc/client.h"
#include "client/cc/ops.h"

int main(int argc, char** argv) {
  auto client = tensord::Client::Connect(argc > 1 ? argv[1] : "unix:./t.sock");
  if (!client.ok()) return std::cerr << client.status() << "\n", 1;
  tensord::Tensor x = (*client)->FromHost<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  tensord::Tensor y = Softmax(MatMul(x, Transpose(x, 0, 1)) / 10, -1);
  auto [best, at] = TopK(y, 1);  // of each row, and its index
  tensord::Tensor all = tensord::Cat({y, best, Cast(at, y.dtype())}, 1);
  absl::StatusOr<std::vector<float>> data = all.ToHost<float>();
  if (!data.ok()) return std::cerr << data.status() << "\n", 1;
  // 0.141851 0.858149 0.858149 1 0.0109869 0.989013 0.989013 1
  for (float value : *data) std::cout << value << "\n";
}
